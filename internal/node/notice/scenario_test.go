package notice_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/notice"
)

// TestScenarios runs the files in testdata. The input of "play" has these commands, one per line:
//
//	open UID CONTAINER CPUS MEMS [none|pod|node]     a container that asks is created
//	has UID CONTAINER CPUS MEMS [none|pod|node]      the container has this verified setting
//	pending UID CONTAINER CPUS MEMS SECONDS          a change is announced that begins after so many seconds
//	settled UID                                      no change of the pod is pending
//	keep UIDS…                                       these pods exist
//	pass SECONDS, restart, full, mend                time passes; the agent restarts; the disk is full, or has space again
//	cat UID CONTAINER                                print the file
//
// The answer has the mounts, the files that are printed, and the log. After a change, run go test
// -rewrite and read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "rapid") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) (answer string) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{disk: &disk{files: map[string]string{}}}
				p.bench = start(t, p.disk)
				for line := range strings.Lines(d.Input) {
					p.line(t, strings.Fields(line))
				}
				p.end()
				p.log()
				answer = p.said.String()
			})
			return answer
		})
	})
}

type play struct {
	*bench
	disk *disk
	said strings.Builder
}

// log adds the log to the answer.
func (p *play) log() {
	for line := range strings.Lines(p.bench.log.String()) {
		_, line, _ = strings.Cut(line, " level=")
		p.said.WriteString(line)
	}
	p.bench.log.Reset()
}

func (p *play) line(t *testing.T, words []string) {
	t.Helper()
	var has notice.Setting
	if len(words) > 4 {
		mems, err := strconv.Atoi(words[4])
		if err != nil {
			t.Fatal(err)
		}
		has = on(words[3], mems)
		has.Level = node.ContainerIsolation
	}
	if len(words) > 5 {
		has.Level = map[string]node.Isolation{"none": node.ContainerIsolation, "pod": node.PodIsolation, "node": node.HostIsolation}[words[5]]
	}
	switch words[0] {
	case "open":
		if dir := p.open(t, words[1], words[2], has); dir != "" {
			fmt.Fprintln(&p.said, "mount", dir)
		}
	case "has":
		p.Changed(words[1], words[2], has)
	case "pending":
		seconds, err := time.ParseDuration(words[5] + "s")
		if err != nil {
			t.Fatal(err)
		}
		p.Pending(words[1], words[2], notice.Change{CPUs: has.CPUs, Mems: has.Mems, Deadline: time.Now().Add(seconds)})
	case "settled":
		p.Settled(words[1])
	case "keep":
		there := map[string]bool{}
		for _, uid := range words[1:] {
			there[uid] = true
		}
		p.Keep(there)
	case "pass":
		seconds, err := time.ParseDuration(words[1] + "s")
		if err != nil {
			t.Fatal(err)
		}
		pass(seconds)
	case "restart":
		p.end()
		p.log()
		p.bench = start(t, p.disk)
	case "full":
		p.disk.set(func(d *disk) { d.broken = fmt.Errorf("no space left on device") })
	case "mend":
		p.disk.set(func(d *disk) { d.broken = nil })
	case "cat":
		text := p.disk.files[words[1]+"/"+words[2]]
		if text == "" {
			text = "there is no file\n"
		}
		p.said.WriteString(text)
	default:
		t.Fatalf("unknown command %q", words)
	}
	synctest.Wait()
}
