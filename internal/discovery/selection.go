package discovery

import (
	"sync"

	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// settingsNews notifies other parts of changes of the mesh settings.
type settingsNews struct {
	mu  sync.Mutex
	of  *snapshot.Settings
	now chan struct{} // closed when the settings change
}

func newSettingsNews() *settingsNews { return &settingsNews{now: make(chan struct{})} }

// published must be called for each snapshot. It closes the channel of changed if the settings
// differ from the last ones.
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

// changed returns a channel that is closed at the next change of the settings.
func (n *settingsNews) changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}
