package scorecard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// event is a line of `go test -json` (cmd/test2json).
type event struct {
	Action, Package, Test, Key, Value, Output string
}

// An Outcome is what one top-level test did, including its subtests.
type Outcome struct {
	// Ended is "pass", "fail" or "skip"; "" if the test did not end.
	Ended string
	// SkipReason is the last line of output before the test was skipped.
	SkipReason string
	// SkippedSubtests counts subtests that could not run here.
	SkippedSubtests int
	// Declared are the checks that the test or its subtests declared, with their sizes.
	Declared map[int][]scorecard.Figure
	Measured map[int][]scorecard.Figure
}

// Outcomes maps tests to their outcomes.
type Outcomes map[Test]*Outcome

// outcomeOf returns the outcome of a test and creates it if there is none. Peer is not part of the
// key.
func (o Outcomes) outcomeOf(dir, name string) *Outcome {
	key := Test{Package: dir, Name: name}
	if o[key] == nil {
		o[key] = &Outcome{Declared: map[int][]scorecard.Figure{}, Measured: map[int][]scorecard.Figure{}}
	}
	return o[key]
}

// Read adds the events of a run of one package. Lines that are not JSON, such as build errors, are
// passed to other.
func (o Outcomes) Read(dir string, r io.Reader, other func(line string)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				other(strings.TrimRight(line, "\n"))
			} else if err := o.addEvent(dir, e); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the events of %s: %w", dir, err)
		}
	}
}

func (o Outcomes) addEvent(dir string, e event) error {
	if e.Test == "" {
		return nil
	}
	name, _, isSubtest := strings.Cut(e.Test, "/")
	outcome := o.outcomeOf(dir, name)
	switch e.Action {
	case "pass", "fail", "skip":
		switch {
		case !isSubtest:
			outcome.Ended = e.Action
		case e.Action == "skip":
			outcome.SkippedSubtests++
		}
	case "output":
		text := strings.TrimSpace(e.Output)
		isFrame := strings.HasPrefix(text, "---") || strings.HasPrefix(text, "===")
		if !isSubtest && text != "" && !isFrame {
			outcome.SkipReason = text
		}
	case "attr":
		return outcome.readAttribute(e)
	}
	return nil
}

func (o *Outcome) readAttribute(e event) error {
	switch e.Key {
	case scorecard.CheckAttribute:
		var d scorecard.Declaration
		if err := json.Unmarshal([]byte(e.Value), &d); err != nil {
			return fmt.Errorf("%s: attribute %s: %w", e.Test, e.Key, err)
		}
		o.Declared[d.Check] = appendNew(o.Declared[d.Check], d.Size...)
	case scorecard.MeasuredAttribute:
		var m scorecard.Measurement
		if err := json.Unmarshal([]byte(e.Value), &m); err != nil {
			return fmt.Errorf("%s: attribute %s: %w", e.Test, e.Key, err)
		}
		o.Measured[m.Check] = appendNew(o.Measured[m.Check], m.Figure)
	}
	return nil
}

// appendNew appends figures that are not in the list: subtests may declare the same size.
func appendNew(list []scorecard.Figure, figures ...scorecard.Figure) []scorecard.Figure {
	if list == nil {
		list = []scorecard.Figure{}
	}
next:
	for _, f := range figures {
		for _, g := range list {
			if f == g {
				continue next
			}
		}
		list = append(list, f)
	}
	return list
}
