package push

import (
	"context"
	"sync"
)

// queue is the producers that have something to make, first come first served. A producer is in it at most once.
type queue struct {
	mu    sync.Mutex
	list  []*producer
	ready chan struct{} // holds one token while the list is not empty
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) push(p *producer) {
	q.mu.Lock()
	q.list = append(q.list, p)
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// pop waits for the next one; false when the context is over.
func (q *queue) pop(ctx context.Context) (*producer, bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-q.ready:
		}
		q.mu.Lock()
		if len(q.list) == 0 {
			q.mu.Unlock()
			continue
		}
		p := q.list[0]
		q.list[0] = nil
		q.list = q.list[1:]
		rest := len(q.list)
		q.mu.Unlock()
		if rest > 0 {
			q.signal()
		}
		return p, true
	}
}
