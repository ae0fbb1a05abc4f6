package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Pauses before a failed read is repeated.
const (
	retryPause  = 500 * time.Millisecond // while the client has a connection
	deniedPause = 30 * time.Second       // if the client lacks a right; no watch reports that it was granted
)

// auditInterval is the time between two lists that are compared with the servers (auditNext).
const auditInterval = time.Second

// session is one call of Watch. Its fields belong to the goroutine of Watch.
type session struct {
	*Platform
	sink   adapter.Sink
	client *client
	queue  *queue

	nodes       map[string]node // what was read, by path
	outstanding map[string]bool // paths that must be read before the nodes are complete
	changed     map[string]bool // services to apply
	synced      bool
	audited     string // the path of the last audit
}

// run reads all nodes once the client has a connection, and then the nodes that change; while none
// does, it compares the next nodes every auditInterval. It returns the error that ended the
// session, or of ctx, and never nil.
func (s *session) run(ctx context.Context) error {
	audit := time.NewTicker(auditInterval)
	defer audit.Stop()
	started := false
	for {
		paths, err := s.queue.drain()
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !started && s.queue.isReady():
			if err := s.start(); err != nil {
				return s.failure(err)
			}
			started = true
		case len(paths) > 0:
			if err := s.readChanged(ctx, paths); err != nil {
				return s.failure(err)
			}
		default:
			select {
			case <-s.queue.wake.C():
			case <-audit.C:
				s.auditNext()
			case <-ctx.Done():
			}
		}
	}
}

// failure returns the error that ended the session, or err if the session has not ended. The end of
// a session interrupts reads, so that err has no information of its own then.
func (s *session) failure(err error) error {
	if _, ended := s.queue.drain(); ended != nil {
		return ended
	}
	return err
}

// start authenticates the session and queues the roots that are set. It first makes the server
// apply all transactions of the leader (Sync): otherwise older data look as if they were restored.
// It returns an error if either request fails or AuthFile cannot be used.
func (s *session) start() error {
	if err := s.settings.authenticate(s.client); err != nil {
		return err
	}
	if _, err := s.client.Sync("/"); err != nil {
		return fmt.Errorf("sync with the leader: %w", err)
	}
	for _, root := range []string{s.settings.DubboRoot, s.settings.ServicesRoot} {
		if root != "" {
			s.request(root)
		}
	}
	return nil
}

// request queues a read of a path, and records that Synced must wait for it.
func (s *session) request(path string) {
	s.outstanding[path] = true
	s.queue.add(path)
}

// readChanged reads the nodes at paths, except unused ones, and reports the changed services that
// were read completely. A failed read is retried after retryPause, and its node awaited until then.
// A node that may not be read is stored with its error, and read again after deniedPause. It
// returns an error only if a root may not be read.
func (s *session) readChanged(ctx context.Context, paths []string) error {
	paths = slices.DeleteFunc(paths, s.isUnused)
	var failed, denied []string
	for _, n := range s.settings.readAll(ctx, s.client.Conn, paths) {
		switch {
		case n.err == nil:
		case isDenied(n.err):
			if kind, _ := s.settings.layoutOf(n.path); kind == rootNode {
				return errText(n.path, n.err)
			}
			denied = append(denied, n.path)
		default:
			s.logger.Debug("read of ZooKeeper failed, retrying", "path", n.path, "error", n.err)
			s.outstanding[n.path] = true
			failed = append(failed, n.path)
			continue
		}
		delete(s.outstanding, n.path)
		s.handle(n)
	}
	s.retry(failed, retryPause)
	s.retry(denied, deniedPause)
	s.applyChanged()
	return nil
}

// isUnused reports whether a path need not be read: it is not part of the layout, or an instance
// that its service does not list.
func (s *session) isUnused(path string) bool {
	kind, service := s.settings.layoutOf(path)
	return kind == other || kind == contentNode && !slices.Contains(s.nodes[service].children, path[len(service)+1:])
}

// retry queues paths again after pause. It does not wait. An empty list is ignored.
func (s *session) retry(paths []string, pause time.Duration) {
	if len(paths) > 0 {
		time.AfterFunc(pause, func() { s.queue.add(paths...) })
	}
}

// handle stores a node, marks its service as changed and requests the nodes that a service lists
// and that were not read. It forgets instances that a service no longer lists. Of a root it
// compares the list of services (handleRoot). Nodes of unknown paths are only stored.
func (s *session) handle(n node) {
	before := s.nodes[n.path]
	s.nodes[n.path] = n
	kind, service := s.settings.layoutOf(n.path)
	switch kind {
	case rootNode:
		s.handleRoot(n, before)
	case serviceNode:
		s.changed[n.path] = true
		if !s.hasContents(n.path) {
			break
		}
		for _, gone := range missingFrom(n.children, before.children) {
			delete(s.nodes, n.path+"/"+gone)
			delete(s.outstanding, n.path+"/"+gone)
		}
		for _, name := range n.children {
			if known, read := s.nodes[n.path+"/"+name]; !read || !known.exists && known.err == nil {
				s.request(n.path + "/" + name)
			}
		}
	case contentNode:
		s.changed[service] = true
	}
}

// hasContents reports whether the instances of a service have contents to read: Dubbo's providers
// have none, because their names are their registrations.
func (s *session) hasContents(service string) bool {
	_, ok := below(service, s.settings.ServicesRoot)
	return ok
}

// handleRoot queues the services of a root that are not watched yet, and removes the nodes of
// services that it no longer lists. before is the root as it was read last. Services whose nodes
// vanished are marked as changed.
func (s *session) handleRoot(n, before node) {
	for _, gone := range missingFrom(n.children, before.children) {
		if path := s.settings.servicePath(n.path, gone); path != "" {
			s.changed[path] = true
			for _, name := range s.nodes[path].children {
				delete(s.nodes, path+"/"+name)
				delete(s.outstanding, path+"/"+name)
			}
			delete(s.nodes, path)
		}
	}
	for _, child := range n.children {
		path := s.settings.servicePath(n.path, child)
		if path == "" {
			continue
		}
		if known, found := s.nodes[path]; !found || !known.exists && known.err == nil && s.hasContents(path) {
			s.request(path)
		}
	}
}

// missingFrom returns the elements of before that list does not contain, or nil if there are none
// before.
func missingFrom(list, before []string) []string {
	if len(before) == 0 {
		return nil
	}
	has := make(map[string]bool, len(list))
	for _, x := range list {
		has[x] = true
	}
	return slices.DeleteFunc(slices.Clone(before), func(x string) bool { return has[x] })
}
