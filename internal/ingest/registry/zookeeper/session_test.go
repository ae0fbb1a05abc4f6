package zookeeper

import (
	"testing"
	"time"
)

// TestInstanceOfAnEarlierName deletes an instance and registers another one by its name. The read
// of the deleted one ends after that of the list.
func TestInstanceOfAnEarlierName(t *testing.T) {
	settings := DefaultSettings()
	settings.Servers = []string{"127.0.0.1:2181"}
	p, err := New(settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue(time.Hour, func() {})
	defer q.close()
	s := &session{Platform: p, queue: q, nodes: map[string]node{}, outstanding: map[string]bool{}, changed: map[string]bool{}}
	const service, content = "/services/orders", "/services/orders/a"
	for i, n := range []node{
		{path: service, exists: true, children: []string{"a"}},
		{path: content, exists: true, content: []byte(springInstance)},
		{path: service, exists: true},
		{path: content},
		{path: service, exists: true, children: []string{"a"}},
	} {
		delete(s.outstanding, n.path)
		s.handle(n)
		if want := i == 0 || i == 4; s.outstanding[content] != want {
			t.Errorf("step %d: the instance is requested: %t, want %t", i, s.outstanding[content], want)
		}
	}
}
