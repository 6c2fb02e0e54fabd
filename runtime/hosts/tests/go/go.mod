module hosts

go 1.19
