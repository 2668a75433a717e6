package kubelet

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
)

// annotations are those of a pod that are read.
type annotations struct {
	Source string `json:"kubernetes.io/config.source"`
	Grant  string `json:"paddock-project.github.io/grant"`
	// Moves is the value of podspec.MovesAnnotation. It is nil if the annotation is absent.
	Moves *string `json:"paddock-project.github.io/moves"`
	// SharedPool is the value of request.SharedPoolAnnotation, nil if the annotation is absent.
	SharedPool *string `json:"paddock-project.github.io/shared-pool"`
	Quiet      string  `json:"paddock-project.github.io/leave-alone-until"`
	// caches are the annotations about caches, whose names have those of containers. Values that
	// are too long to be read are cut, and stay too long.
	caches map[string]string
	// odd has a sentence about each annotation that is probably misspelt.
	odd []string
}

// UnmarshalJSON looks at the names of annotations only where there may be some of Paddock: a pod
// may have a quarter of a MiB of other ones. Names are case-sensitive, as in the rest of an item:
// users may set kubernetes.io/config.Source.
func (a *annotations) UnmarshalJSON(data []byte) error {
	type fixed annotations
	if err := decode(data, (*fixed)(a)); err != nil {
		return err
	}
	has := func(text string) bool { return bytes.Contains(data, []byte(text)) }
	if !podspec.MayBeOurs(data) && !has(`\u`) && !has(`\/`) { // Names may be escaped.
		return nil
	}
	var all map[string]json.RawMessage
	if err := decode(data, &all); err != nil {
		return err
	}
	keys := make([]string, 0, len(all))
	for key, raw := range all {
		keys = append(keys, key)
		if !strings.HasPrefix(key, request.CacheAnnotationPrefix) && key != request.SharedPoolCacheAnnotation {
			continue
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		if len(text) > podspec.CacheText {
			text = strings.Clone(text[:podspec.CacheText+1])
		}
		if a.caches == nil {
			a.caches = map[string]string{}
		}
		a.caches[key] = text
	}
	a.odd = podspec.Misspelt(keys)
	return nil
}
