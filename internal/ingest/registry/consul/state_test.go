package consul

import (
	"slices"
	"testing"
)

func TestServiceState(t *testing.T) {
	instances := func(ids ...string) []Instance {
		var list []Instance
		for _, id := range ids {
			list = append(list, Instance{ID: id})
		}
		return list
	}
	for name, steps := range map[string][]struct {
		answer         answer
		removals, held int
		want           []string
	}{
		"deregistered": {
			{answer{instances("a", "b"), false, 0}, 0, 0, []string{"a", "b"}},
			{answer{instances("a"), false, 0}, 1, 0, []string{"a"}},
			{answer{nil, false, 0}, 1, 0, nil},
		},
		"the right to read is lost, and granted again": {
			{answer{instances("a", "b"), false, 0}, 0, 0, []string{"a", "b"}},
			{answer{nil, true, 0}, 0, 2, []string{"a", "b"}},
			{answer{instances("b"), true, 0}, 0, 1, []string{"a", "b"}},
			{answer{instances("b"), false, 0}, 1, 0, []string{"b"}},
		},
		"some instances were never readable": {
			{answer{instances("a", "b"), true, 0}, 0, 0, []string{"a", "b"}},
			{answer{instances("b"), true, 0}, 1, 0, []string{"b"}},
			{answer{nil, true, 0}, 0, 1, []string{"b"}},
		},
		"the servers lost their data": {
			{answer{instances("a", "b", "c"), false, 0}, 0, 0, []string{"a", "b", "c"}},
			{answer{nil, false, 1}, 0, 3, []string{"a", "b", "c"}},
			{answer{instances("b", "d"), false, 1}, 0, 2, []string{"a", "b", "c", "d"}},
			{answer{instances("d"), false, 1}, 1, 2, []string{"a", "c", "d"}}, // b was registered and deregistered
			{answer{instances("a", "c"), false, 2}, 0, 1, []string{"a", "c", "d"}},
		},
	} {
		var s serviceState
		for i, step := range steps {
			if r, h := s.removals(step.answer), s.countHeld(step.answer); r != step.removals || h != step.held {
				t.Errorf("%s, step %d: %d removals, %d held; want %d and %d", name, i, r, h, step.removals, step.held)
			}
			s.apply(step.answer)
			var got []string
			for _, x := range s.sorted() {
				got = append(got, x.ID)
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("%s, step %d: %v, want %v", name, i, got, step.want)
			}
		}
	}
}

func TestServerIdentity(t *testing.T) {
	var s serverIdentity
	for i, step := range []struct {
		ids  []string
		want bool
	}{
		{[]string{"a", "b", "c"}, false},
		{nil, false},                     // not readable
		{[]string{"b", "c", "d"}, false}, // one is replaced
		{[]string{"d", "e", "f"}, false}, // two are replaced
		{[]string{"x", "y", "z"}, true},  // all are replaced at once
		{[]string{"x", "y", "z"}, false},
	} {
		if got := s.update(step.ids); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	if s.generation != 1 {
		t.Errorf("generation %d", s.generation)
	}
}

// TestHeldInstancesNeedDirectAnswers: an instance of an earlier generation is held until an answer
// lists it. Its index identifies a restored snapshot.
func TestHeldInstancesNeedDirectAnswers(t *testing.T) {
	s := serviceState{}
	s.apply(answer{instances: []Instance{{ID: "n/1", CreateIndex: 10}, {ID: "n/2", CreateIndex: 20}}})
	without := answer{instances: []Instance{{ID: "n/1", CreateIndex: 10}}}
	if s.isOlder(without, 20) || !s.isOlder(without, 19) {
		t.Error("data of index 20 have the instance of index 20, and those of index 19 do not")
	}
	with := answer{generation: 1, instances: []Instance{{ID: "n/2", CreateIndex: 20}}}
	if !s.listsHeld(with) {
		t.Error("the instance is of an earlier generation")
	}
	if s.apply(with); s.listsHeld(with) {
		t.Error("the instance is of this generation")
	}
	if s.isOlder(answer{generation: 1}, 5) != true || s.isOlder(answer{generation: 2}, 5) {
		t.Error("indexes are compared within a generation only")
	}
}
