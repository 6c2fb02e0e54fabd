module pirn.example/embed

go 1.21
