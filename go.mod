module github.com/paddock-project/paddock

go 1.26
