package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// shutBy returns the EndStream among actions, or nil if there is none.
func shutBy(actions []Action) *EndStream {
	for _, a := range actions {
		if s, ok := a.(EndStream); ok {
			return &s
		}
	}
	return nil
}

func resourceNames(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf("name-%05d", i))
	}
	return list
}

// TestNamesOfAStreamAreBounded: a client may subscribe to a limited number of names of each type,
// however it adds them. If it exceeds the limit, the stream ends with the limit in the error. Names
// that it acknowledges, requests again or unsubscribes from do not count.
func TestNamesOfAStreamAreBounded(t *testing.T) {
	limits := NameLimits{Names: 100, Bytes: 5000}
	t.Run("delta, step by step", func(t *testing.T) {
		m := New(Options{Mode: Delta, Names: limits})
		for i := range 10 {
			for range 3 { // repeatedly
				if s := shutBy(
					m.Step(Request{TypeURL: api.EndpointType, Subscribe: resourceNames(10*i, 10*i+10)}),
				); s != nil {
					t.Fatalf("%d names: %+v", 10*i+10, *s)
				}
			}
		}
		if s := shutBy(m.Step(Request{TypeURL: api.RouteType, Subscribe: resourceNames(0, 100)})); s != nil {
			t.Errorf("the same number of another type: %+v", *s)
		}
		if s := shutBy(
			m.Step(
				Request{
					TypeURL:     api.EndpointType,
					Subscribe:   resourceNames(200, 205),
					Unsubscribe: resourceNames(0, 5),
				},
			),
		); s != nil {
			t.Errorf("some names replaced by others: %+v", *s)
		}
		s := shutBy(m.Step(Request{TypeURL: api.EndpointType, Subscribe: resourceNames(300, 301)}))
		if s == nil || !s.Limit || !strings.Contains(s.Reason, "101 resource names of EDS exceed the limit of 100") {
			t.Errorf("one more name: EndStream = %+v", s)
		}
		if actions := m.Step(Request{TypeURL: api.EndpointType, Subscribe: resourceNames(0, 1)}); len(actions) > 0 {
			t.Errorf("actions after the end: %v", actions)
		}
	})
	t.Run("SotW", func(t *testing.T) {
		m := New(Options{Mode: SotW, Names: limits})
		for _, from := range []int{0, 100, 200} { // others each time
			if s := shutBy(m.Step(Request{TypeURL: api.EndpointType, Names: resourceNames(from, from+100)})); s != nil {
				t.Fatalf("%+v", *s)
			}
		}
		if s := shutBy(m.Step(Request{TypeURL: api.EndpointType, Names: resourceNames(0, 101)})); s == nil || !s.Limit {
			t.Errorf("one name too many: EndStream = %+v", s)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		m := New(Options{Mode: Delta, Names: limits})
		long := slices.Repeat([]string{""}, 5)
		for i := range long {
			long[i] = strings.Repeat(string(rune('a'+i)), 1000)
		}
		if s := shutBy(m.Step(Request{TypeURL: api.SecretType, Subscribe: long})); s != nil {
			t.Fatalf("%+v", *s)
		}
		if s := shutBy(
			m.Step(Request{TypeURL: api.SecretType, Subscribe: []string{"x"}}),
		); s == nil || !s.Limit ||
			!strings.Contains(s.Reason, "5001 bytes") {
			t.Errorf("one byte too many: EndStream = %+v", s)
		}
	})
}
