// Command uses links golang.org/x/mod.
package main

import "golang.org/x/mod/semver"

func main() { println(semver.Canonical("v1")) }
