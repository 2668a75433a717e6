#!/bin/sh
# Makes one of the modules here record a version of Kubernetes: ./version.sh v1.37.2
#
# The directory is kubelet-1.MINOR, or the second argument: "." is the shared module, which has the
# oldest recorded minor. A directory without go.mod gets one. The modules in the tree of
# k8s.io/kubernetes are published as v0.MINOR.PATCH, and only a replacement selects those. Of one that
# cannot be downloaded the patch before is taken, and that is printed: no function that decides is in them.
set -eu
cd "$(dirname "$0")"
version=${1:?"usage: version.sh v1.MINOR.PATCH [DIRECTORY]"}
minor=${version#v1.}
directory=${2:-kubelet-1.${minor%.*}}
path=github.com/paddock-project/paddock/test/record

# published MODULE prints the newest version of a module, up to the patch, that can be downloaded.
published() {
	patch=${minor#*.}
	while [ "$patch" -ge 0 ]; do
		if (cd "${TMPDIR:-/tmp}" && go mod download "$1@v0.${minor%.*}.$patch") >/dev/null 2>&1; then
			echo "v0.${minor%.*}.$patch"
			return
		fi
		patch=$((patch - 1))
	done
	echo "$1 cannot be downloaded in any version 0.${minor%.*}" >&2
	return 1
}

cd "$directory"
if ! [ -e go.mod ]; then
	go mod init "$path/$directory"
	go mod edit -require "$path@v0.0.0" -replace "$path=../"
fi
go mod edit -require "k8s.io/kubernetes@$version"
file=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p')
for module in $(sed -n 's/^\t\(k8s\.io\/[a-z-]*\) => \.\/staging\/.*$/\1/p' "$file"); do
	own=$(published "$module")
	[ "$own" = "v0.$minor" ] || echo "$module: $own"
	sed -i "s#^\(\t$module\) v[^ ]*#\1 $own#" go.mod
	go mod edit -replace "$module=$module@$own"
done
# The other libraries are those that this version was released with: another module here can require newer ones.
sed -n '/^require (/,/^)/s#^\t\([^ ]*\) \(v[^ ]*\).*$#\1 \2#p' "$file" | grep -v ' v0\.0\.0$' | while read -r module release; do
	go mod edit -replace "$module=$module@$release"
done
go mod tidy
