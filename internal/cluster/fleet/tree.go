package fleet

import "slices"

// tree is a tournament over the answers of a class. In every match, the answer that may still
// become the best wins. first returns the overall winner. A changed answer replays its matches up
// to the root, which takes log2(n) comparisons.
type tree struct {
	leaves int
	// winners has the positions of answers, or -1 if neither side can take the pod. The root is at
	// 1. The children of k are at 2k and 2k+1. The leaf of answer i is at leaves+i.
	winners []int32
}

func newTree(n int) tree {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	t := tree{leaves: leaves, winners: make([]int32, 2*leaves)}
	for i := range t.winners {
		t.winners[i] = -1
	}
	return t
}

func (t *tree) clone() tree { return tree{leaves: t.leaves, winners: slices.Clone(t.winners)} }

// first returns the position of the best answer, or -1 if there is none.
func (t *tree) first() int { return int(t.winners[1]) }

// playAll plays all matches of a new tree.
func (t *tree) playAll(answers []answer) {
	for i := range answers {
		if answers[i].verdict != rejected {
			t.winners[t.leaves+i] = int32(i)
		}
	}
	for k := t.leaves - 1; k > 0; k-- {
		t.winners[k] = better(answers, t.winners[2*k], t.winners[2*k+1])
	}
}

// update replays the matches of answer i.
func (t *tree) update(i int, answers []answer) {
	winner := int32(i)
	if answers[i].verdict == rejected {
		winner = -1
	}
	t.play(i, winner, answers)
}

// remove replays the matches without answer i, until the answer is updated.
func (t *tree) remove(i int, answers []answer) { t.play(i, -1, answers) }

func (t *tree) play(i int, winner int32, answers []answer) {
	k := t.leaves + i
	t.winners[k] = winner
	for k > 1 {
		k /= 2
		t.winners[k] = better(answers, t.winners[2*k], t.winners[2*k+1])
	}
}

// better returns the winner of two positions. Of equal answers, it returns the lower position,
// which has the lower name.
func better(answers []answer, a, b int32) int32 {
	if a < 0 || b >= 0 && answers[b].cost.less(answers[a].cost) {
		return b
	}
	return a
}
