module example.com/notice

go 1.26.0
