package zones

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/paddock-project/paddock/internal/codec/handover"
)

// fingerprint identifies a set of pods by their namespaces and names, in the format that schedulers
// compare. It is the hash of the pods' sorted hashes. The hash of a pod is the hash of its name,
// seeded with the hash of its namespace.
func fingerprint(pods []handover.Name) string {
	hashes := make([]uint64, len(pods))
	for i, pod := range pods {
		d := xxhash.NewWithSeed(xxhash.Sum64String(pod.Namespace))
		_, _ = d.WriteString(pod.Name) // It never fails.
		hashes[i] = d.Sum64()
	}
	slices.Sort(hashes)
	var all []byte
	for _, h := range hashes {
		all = binary.LittleEndian.AppendUint64(all, h)
	}
	// The sum is written in big-endian byte order.
	return "pfp0v001" + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, xxhash.Sum64(all)))
}
