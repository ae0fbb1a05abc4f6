package discovery

import (
	"sync"

	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// settingsNews tells those who go by the mesh's settings that there are others.
type settingsNews struct {
	mu  sync.Mutex
	of  *snapshot.Settings
	now chan struct{} // closed when there are others
}

func newSettingsNews() *settingsNews { return &settingsNews{now: make(chan struct{})} }

// published is told of each snapshot.
func (n *settingsNews) published(next *snapshot.Settings) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == next {
		return
	}
	n.of = next
	close(n.now)
	n.now = make(chan struct{})
}

// changed gives a channel that is closed when there are other settings.
func (n *settingsNews) changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}
