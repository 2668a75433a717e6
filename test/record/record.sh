#!/bin/sh
# Records a version of Kubernetes: ./record.sh v1.37.2 (make record VERSION=v1.37.2)
#
# It writes testdata/kubelets/1.MINOR/*.jsonl.gz from the same scenarios for every version:
#
#   golden    those of testdata/golden that name no feature gate which the version does not have
#   ordinary  random histories without pod-level resources
#   pools     random histories in which half of the pods have pod-level resources, from 1.36 on
#   devices   random histories on nodes with device plugins; from 1.36 on, a third have pods with pod-level resources
#   starts    verdicts on state files: those of testdata/golden
#   from-1.X  starts on nodes with pods as the kubelet of a neighboring minor left them, and what follows: the last
#             restart of each scenario that is recorded of that minor
#
# The first build of a minor compiles about 1,600 packages.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${1:?"usage: record.sh v1.MINOR.PATCH"}
minor=${version#v1.}
minor=${minor%.*}
ordinary=400
if [ "$minor" -lt 36 ]; then
	ordinary=1000 # There are fewer golden scenarios, and no pools.
fi
top=$here/../..
out=$top/testdata/kubelets/1.$minor

cd "$here/kubelet-1.$minor"
grep -q "k8s.io/kubernetes $version\$" go.mod || ../version.sh "$version"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "building the recorder of $version"
CGO_ENABLED=0 go build -trimpath -o "$work/record" .
mkdir -p "$out"

# record NAME ARGUMENTS... writes NAME.jsonl.gz.
record() {
	name=$1
	shift
	"$work/record" "$@" >"$work/$name.jsonl"
	gzip -9n <"$work/$name.jsonl" >"$out/$name.jsonl.gz"
	echo "$name: $(wc -l <"$work/$name.jsonl") lines, $(wc -c <"$out/$name.jsonl.gz") bytes"
}

golden=$(ls "$top"/testdata/golden/*.jsonl.gz | grep -v state-verdicts)
# shellcheck disable=SC2086 # one argument for each file
record golden -runs 2 -machines "$top/testdata/golden/machines" -understood $golden
"$work/record" -random "$ordinary" -seed 1 >"$work/ordinary.bare"
record ordinary -runs 2 "$work/ordinary.bare"
if [ "$minor" -ge 36 ]; then
	"$work/record" -random 400 -seed 1000001 -pools >"$work/pools.bare"
	record pools -runs 2 "$work/pools.bare"
fi
"$work/record" -random 300 -seed 2000001 -devices >"$work/devices.bare"
if [ "$minor" -ge 36 ]; then
	"$work/record" -random 150 -seed 3000001 -devices -pools >>"$work/devices.bare"
fi
record devices -runs 2 "$work/devices.bare"
gzip -dc "$top/testdata/golden/state-verdicts.jsonl.gz" >"$work/starts.bare"
if [ "$minor" -lt 36 ]; then # Without the gates that it does not have.
	sed -E -i 's/"(PodLevelResourceManagers|InPlacePodLevelResourcesVerticalScaling)":(true|false),?//g; s/,\}/}/g' "$work/starts.bare"
fi
record starts -machines "$top/testdata/golden/machines" "$work/starts.bare"
for other in $((minor - 1)) $((minor + 1)); do
	left=$top/testdata/kubelets/1.$other
	[ -d "$left" ] || continue # It is not recorded.
	: >"$work/from.bare"
	for name in ordinary pools devices golden; do
		[ -f "$left/$name.jsonl.gz" ] || continue # Minors before 1.36 have no pools.
		"$work/record" -understood -handed-over "$(sed -n 's|^\tk8s.io/kubernetes v||p' "../kubelet-1.$other/go.mod")" "$left/$name.jsonl.gz" >>"$work/from.bare"
	done
	record "from-1.$other" -runs 2 -machines "$top/testdata/golden/machines" "$work/from.bare"
done
