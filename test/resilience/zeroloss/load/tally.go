package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
)

// failuresKept bounds how many failures a Tally describes.
const failuresKept = 200

// Cell is requests of one lane that ended while one thing was going on.
type Cell struct {
	Event, Lane string
	Kind        echo.Kind // of the lane
}

// Count has the results of requests.
type Count struct {
	Sent, Failed int
	Slowest      time.Duration
}

// Failure is a lost request.
type Failure struct {
	Cell
	ID   string
	At   time.Time // when it was sent
	Took time.Duration
	Err  error
}

func (f Failure) String() string {
	return fmt.Sprintf("%s %s %s during %q, after %s: %v",
		f.At.UTC().Format("15:04:05.000"), f.Lane, f.ID, f.Event, f.Took.Round(time.Millisecond), f.Err)
}

// Tally contains the results of a load.
type Tally struct {
	Elapsed  time.Duration
	Cells    map[Cell]Count
	Failures []Failure // the first ones
}

func (t *Tally) addFailure(f Failure) {
	if len(t.Failures) < failuresKept {
		t.Failures = append(t.Failures, f)
	}
}

func (t *Tally) cloneTally() Tally {
	return Tally{Cells: maps.Clone(t.Cells), Failures: slices.Clone(t.Failures)}
}

// Sum counts all cells that a filter takes; nil takes all.
func (t Tally) Sum(take func(Cell) bool) Count {
	var sum Count
	for cell, n := range t.Cells {
		if take == nil || take(cell) {
			sum.Sent += n.Sent
			sum.Failed += n.Failed
			sum.Slowest = max(sum.Slowest, n.Slowest)
		}
	}
	return sum
}

// Rate is how many requests were sent per second.
func (t Tally) Rate() float64 {
	if t.Elapsed <= 0 {
		return 0
	}
	return float64(t.Sum(nil).Sent) / t.Elapsed.Seconds()
}

// plainText makes a text usable as an id.
func plainText(s string) string { return strings.ReplaceAll(s, " ", "-") }
