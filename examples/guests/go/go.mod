module guests

go 1.21
