module vfix.dev/vfix

go 1.26
