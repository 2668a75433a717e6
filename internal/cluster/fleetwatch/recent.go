package fleetwatch

// Row identifies a line of the rejections: what nodes of a group rejected, and why.
type Row struct{ Group, Class, Cause string }

// hour is the number of minutes that are kept.
const hour = 60

// recent has the rejections by row and minute.
type recent map[Row]*minutes

type minutes struct {
	counts [hour]int64
	last   int64 // the minute of the last count
}

// pass forgets counts that are older than an hour.
func (m *minutes) pass(minute int64) {
	for at := m.last + 1; at <= minute && at <= m.last+hour; at++ {
		m.counts[at%hour] = 0
	}
	m.last = max(m.last, minute)
}

func (r recent) add(row Row, minute, n int64) {
	m := r[row]
	if m == nil {
		m = &minutes{last: minute}
		r[row] = m
	}
	m.pass(minute)
	m.counts[minute%hour] += n
}

// hour returns the sum of each row for the last hour. It omits rows without rejections.
func (r recent) hour(minute int64) map[Row]int64 {
	out := map[Row]int64{}
	for row, m := range r {
		m.pass(minute)
		var sum int64
		for _, n := range m.counts {
			sum += n
		}
		if sum == 0 {
			delete(r, row)
			continue
		}
		out[row] = sum
	}
	return out
}
