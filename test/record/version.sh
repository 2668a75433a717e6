#!/bin/sh
# Lets this module record another version of Kubernetes: ./version.sh v1.37.0
# The modules of its own tree are published as v0.37.0; only a replacement selects them.
set -eu
cd "$(dirname "$0")"
version=${1:?"usage: version.sh v1.MINOR.PATCH"}
own=v0.${version#v1.}

go mod edit -require "k8s.io/kubernetes@$version"
file=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p')
for module in $(sed -n 's/^\t\(k8s\.io\/[a-z-]*\) => \.\/staging\/.*$/\1/p' "$file"); do
	sed -i "s#^\(\t$module\) v[^ ]*#\1 $own#" go.mod
	go mod edit -replace "$module=$module@$own"
done
go mod tidy
