module hosts

go 1.22
