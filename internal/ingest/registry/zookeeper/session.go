package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Name is the value of --registries that selects this platform, and the provider of its services.
const Name = "ZooKeeper"

// Platform reports the services of ZooKeeper. It keeps its state between calls of Watch.
type Platform struct {
	settings Settings
	logger   *slog.Logger
	tree     *tree
	// process is the generation for the Sink. It does not change, because tree decides what was
	// deregistered.
	process string
	// reported has the services that were reported, by the path of their node. A value is true if
	// the key has only a problem.
	reported map[string]map[adapter.ServiceKey]bool
}

var _ adapter.Platform = (*Platform)(nil)

// New returns a Platform. It returns an error if the settings are invalid or the CA file of the TLS
// settings is unusable. It opens no connection. If logger is nil, nothing is logged.
func New(s Settings, logger *slog.Logger) (*Platform, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.TLS {
		if _, err := s.TLSConfig(flagPrefix); err != nil {
			return nil, err
		}
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Platform{
		settings: s, logger: logger, tree: newTree(), process: adapter.NewGeneration(),
		reported: map[string]map[adapter.ServiceKey]bool{},
	}, nil
}

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

// Watch implements adapter.Platform. It returns an error when the session ends. The reasons are
// expiry, failed authentication, no connection for the session timeout, a root that may not be
// read, and the end of ctx. It closes the connection before it returns.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	q := newQueue(p.settings.SessionTimeout, cancel)
	defer q.close()
	c, err := p.settings.connect(ctx, p.logger, q.handle)
	if err != nil {
		cancel()
		return err
	}
	q.setLastError(c.lastError)
	s := &session{
		Platform: p, sink: sink, client: c, queue: q,
		nodes: map[string]node{}, outstanding: map[string]bool{}, changed: map[string]bool{},
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		<-ctx.Done() // ends reads that wait for an answer
		_ = recovery.Call(ctx, "close ZooKeeper session", func() error { c.close(); return nil }, "task")
	})
	return s.run(ctx)
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
			case <-s.queue.wake:
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

// start authenticates the session and queues the roots. It first makes the server apply all
// transactions of the leader (Sync): otherwise older data look as if they were restored.
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

// readChanged reads the nodes at paths, and reports the changed services that were read completely.
// A failed read is retried later. It returns an error only if a root may not be read.
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
// and that were not read. It forgets instances that a service no longer lists. Nodes of unknown
// paths are only stored.
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

// applyChanged applies and reports the changed services that were read completely. Before Synced it
// does nothing until all nodes were read, because any of them may show that the servers lost their
// data. Then it reports these services and Synced.
func (s *session) applyChanged() {
	if !s.synced {
		if len(s.outstanding) > 0 {
			return
		}
		s.beginData()
	}
	for _, path := range slices.Sorted(maps.Keys(s.changed)) {
		if s.isComplete(path) {
			delete(s.changed, path)
			s.apply(path)
			s.report(path)
		}
	}
	for _, root := range []string{s.settings.DubboRoot, s.settings.ServicesRoot} {
		if n, read := s.nodes[root]; read && root != "" {
			s.tree.setRoot(n)
		}
	}
	if !s.synced {
		s.synced = true
		s.sink.SyncedGeneration(s.process)
	}
}

// beginData compares the nodes with the state of the previous session, and begins a new generation
// if the servers lost data. It marks all known services as changed.
func (s *session) beginData() {
	for path := range s.tree.services {
		s.changed[path] = true
	}
	if s.tree.isReset(s.nodes) {
		s.tree.generation++
		s.logger.Warn("ZooKeeper servers lost their data; keeping all known instances until they are registered again",
			"servers", s.settings.Servers)
	}
}

// isComplete reports whether the contents of all instances of a service were read. It returns true
// if its instances have no contents.
func (s *session) isComplete(path string) bool {
	if !s.hasContents(path) {
		return true
	}
	for _, name := range s.nodes[path].children {
		if _, read := s.nodes[path+"/"+name]; !read {
			return false
		}
	}
	return true
}

// apply stores the instances of a service in the tree, and removes instances that are no longer
// listed. If the service could not be read, it stores the error only, and the instances stay.
func (s *session) apply(path string) {
	n := s.nodes[path]
	service := s.tree.service(path)
	if n.err != nil {
		service.err = errText(path, n.err)
		return
	}
	service.setNode(n)
	var listed []string
	for _, name := range n.children {
		r, err, ok := s.registration(path, name)
		if !ok {
			continue
		}
		listed = append(listed, name)
		service.set(name, r, s.tree.generation, err)
	}
	service.removeMissing(listed, s.tree.generation)
	if len(service.instances) == 0 && !n.exists {
		delete(s.tree.services, path)
	}
}

// registration returns the registration of a child of a service's node, or its error. ok is false
// if the child is no instance: it was deleted, or is a folder. A Dubbo provider is its name alone,
// without content.
func (s *session) registration(path, name string) (r registration, err error, ok bool) {
	if !s.hasContents(path) {
		r, err = parseProvider(name)
		return r, err, true
	}
	n := s.nodes[path+"/"+name]
	switch {
	case n.err != nil:
		return r, n.err, true
	case !n.exists, len(n.content) == 0 && n.stat.EphemeralOwner == 0: // deleted since, or a folder
		return r, nil, false
	}
	r, err = parseInstance(path[strings.LastIndex(path, "/")+1:], n.content)
	return r, err, true
}

// report reports the services of a node, each with the node's problem if there is one, and deletes
// the services that the node no longer has. The problem of a node without services is reported
// under the node's path.
func (s *session) report(path string) {
	state := s.tree.services[path]
	if state == nil {
		state = &service{}
	}
	services, invalid := s.settings.adapterServices(state, s.tree.generation)
	problem := errors.Join(state.err, s.heldProblem(state), invalid)
	keys := map[adapter.ServiceKey]bool{}
	for key, service := range services {
		keys[key] = false
		s.sink.Set(service)
		if problem != nil {
			s.sink.Report(key, problem)
		}
	}
	if problem != nil && len(services) == 0 {
		key := adapter.ServiceKey{Namespace: s.settings.Namespace, Name: path}
		keys[key] = true
		s.sink.Report(key, problem)
	}
	for key, problemOnly := range s.reported[path] {
		if _, kept := keys[key]; kept {
			continue
		}
		if problemOnly {
			s.sink.Report(key, nil)
		} else {
			s.sink.Delete(key)
		}
	}
	s.reported[path] = keys
	if len(keys) == 0 {
		delete(s.reported, path)
	}
}

// heldProblem returns an error with the number of held instances of a service, or nil if there are
// none.
func (s *session) heldProblem(state *service) error {
	if n := state.held(s.tree.generation); n > 0 {
		return fmt.Errorf("the ZooKeeper servers lost their data and do not list %d of the instances; they stay in use until they are registered again", n)
	}
	return nil
}
