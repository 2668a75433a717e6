package manifests

import "testing"

// step is an action, and the set that is delivered afterwards. "=" means that none is delivered.
type step struct {
	what string
	do   act
	want string
}

const same = "="

var scenarios = []struct {
	name  string
	paths []string // if nil, the directory itself
	begin act
	first string
	then  []step
}{
	{
		name: "files come, change and go", begin: all(), first: "",
		then: []step{
			{"a file comes", write("a.yaml", pod("a")), "a"},
			{"another comes", write("b.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"c"}]}}`), "a b"},
			{"a file has one pod more", write("a.yaml", pod("a")+pod("a2")), "a a2 b"},
			{"a file gets another name", rename("b.json", "0.json"), "b a a2"},
			{"nothing happens", all(), same},
			{"a file goes", remove("a.yaml"), "b"},
		},
	},
	{
		name: "a typo stops no pod", begin: all(write("a.yaml", pod("a")), write("b.yaml", pod("b"))), first: "a b",
		then: []step{
			{"wrong syntax", write("a.yaml", "kind: ["), "a b !a.yaml+1"},
			{"still wrong", write("a.yaml", "kind: {"), "a b !a.yaml+1"},
			{"the others go on", write("b.yaml", pod("b2")), "a b2 !a.yaml+1"},
			{"one pod of two is invalid: the file is one unit", write("a.yaml", pod("new")+invalid), "a b2 !a.yaml+1"},
			{"an unknown field", write("a.yaml", pod("a")+"apiVersion: v1\nkind: Pod\nmetadata: {name: y}\nspek: {}"), "a b2 !a.yaml+1"},
			{"an empty file", write("a.yaml", " \n"), "a b2 !a.yaml+1"},
			{"it is good again", write("a.yaml", pod("a3")), "a3 b2"},
			{"the file is deleted while broken", all(write("a.yaml", "kind: [")), "a3 b2 !a.yaml+1"},
			{"then its pods go", remove("a.yaml"), "b2"},
		},
	},
	{
		name: "what was broken before the start is not known", begin: all(write("a.yaml", "kind: ["), write("b.yaml", pod("b"))), first: "b !a.yaml partial",
		then: []step{
			{"until it is good once", write("a.yaml", pod("a")), "a b"},
			{"then it is kept", write("a.yaml", "kind: ["), "a b !a.yaml+1"},
		},
	},
	{
		name: "no pods is a good version", begin: all(write("a.yaml", "# nothing yet\n")), first: "",
		then: []step{
			{"all is commented out", write("a.yaml", pod("a")), "a"},
			{"a comment is an answer", write("a.yaml", "# kind: Pod\n"), ""},
			{"a finished pod is passed over", write("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\nstatus: {phase: Succeeded}"), ""},
		},
	},
	{
		name: "a pod in two files is the first one's", begin: all(write("a.yaml", pod("x")), write("b.yaml", pod("y"))), first: "x y",
		then: []step{
			{"a copy", write("b.yaml", pod("x")+pod("y")), "x y !b.yaml"},
			{"another manifest of one name", write("b.yaml", pod("y")+"apiVersion: v1\nkind: Pod\nmetadata: {name: x, uid: '1'}\nspec: {containers: [{name: d}]}"), "x y !b.yaml"},
			{"the first one goes", remove("a.yaml"), "y x"},
		},
	},
	{
		name: "a directory that vanishes takes no pods along", paths: []string{"pods"}, begin: all(mkdir("pods"), write("pods/a.yaml", pod("a"))), first: "a",
		then: []step{
			{"it vanishes", rename("pods", "elsewhere"), "a !pods+1"},
			{"it is another one", all(mkdir("pods"), write("pods/b.yaml", pod("b"))), "b"},
		},
	},
	{
		name: "a directory that was never there", paths: []string{"pods"}, begin: all(), first: "!pods partial",
		then: []step{
			{"it comes, empty", mkdir("pods"), ""},
			{"it fills", write("pods/a.yaml", pod("a")), "a"},
		},
	},
	{
		name: "files by name", paths: []string{"b.yaml", "a.txt", "b.yaml", "."}, begin: all(write("a.txt", pod("a")), write("b.yaml", pod("b")), write("c.yaml", pod("c"))), first: "b a c",
		then: []step{
			{"one is deleted", remove("a.txt"), "b c !a.txt"},
			{"and comes back", write("a.txt", pod("a")), "b a c"},
		},
	},
	{
		name: "a named file whose directory vanishes", paths: []string{"etc/a.yaml"}, begin: all(mkdir("etc"), write("etc/a.yaml", pod("a"))), first: "a",
		then: []step{
			{"it is not mounted any more", rename("etc", "away"), "a !etc/a.yaml+1"},
			{"it is again", rename("away", "etc"), "a"},
		},
	},
	{
		name: "what editors leave", begin: write("a.yaml", pod("a")), first: "a",
		then: []step{
			{"temporary files", all(write(".a.yaml.swp", "x"), write("a.yaml~", "x"), write("#a.yaml#", "x"), write(".#a.yaml", "x"), write("a.yaml.tmp", "x")), same},
			{"rename over", all(write(".a.yaml.new", pod("a2")), rename(".a.yaml.new", "a.yaml")), "a2"},
			{"move away, write anew", all(rename("a.yaml", "a.yaml~"), write("a.yaml", pod("a3"))), "a3"},
			{"a directory that is named as a file", mkdir("sub.yaml"), same},
			{"a link to a directory", link("sub.yaml", "sub2.yaml"), same},
			{"a name that may be meant", write("readme.txt", "x"), "a3"},
		},
	},
	{
		name: "a mounted ConfigMap", begin: all(mkdir("..1"), write("..1/a.yaml", pod("a")), link("..1", "..data"), link("..data/a.yaml", "a.yaml")), first: "a",
		then: []step{
			{"it is exchanged", all(mkdir("..2"), write("..2/a.yaml", pod("a2")), link("..2", "..tmp"), rename("..tmp", "..data"), remove("..1")), "a2"},
			{"the link leads nowhere", remove("..2"), "a2 !a.yaml+1"},
			{"the link goes", remove("a.yaml"), ""},
		},
	},
}

func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			paths := sc.paths
			if paths == nil {
				paths = []string{"."}
			}
			play(t, paths, sc.begin, func(r running) {
				if got := summary(r.dir, r.next(soon)); got != sc.first {
					r.t.Fatalf("at the start: %q, want %q", got, sc.first)
				}
				for _, step := range sc.then {
					r.do(step.do)
					if step.want == same {
						r.quiet()
						continue
					}
					if got := summary(r.dir, r.next(2*DefaultRescan)); got != step.want {
						r.t.Fatalf("%s: %q, want %q", step.what, got, step.want)
					}
				}
				r.quiet()
			})
		})
	}
}
