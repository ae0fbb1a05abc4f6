package zookeeper

import (
	"github.com/go-zookeeper/zk"
)

// auditNext compares the next list of children with the servers. It queues a read if the list has
// changed or may no longer be read; other errors are ignored. It sends nothing without a list, or
// while the queue is not ready.
//
// Watches alone are not enough. ZooKeeper 3.9.4 discards a watch and its event if the client lacks
// the right to read the node at that moment (observed).
func (s *session) auditNext() {
	path := s.nextAudit()
	if path == "" || !s.queue.isReady() {
		return
	}
	known := s.nodes[path]
	_, stat, err := s.client.Children(path)
	if isDenied(err) && known.err == nil || err == nil && isChanged(stat, &known) {
		s.logger.Debug("a watch of ZooKeeper missed a change, or the right to read was lost", "path", path, "error",
			err)
		s.queue.add(path)
	}
}

// isChanged reports whether the children of a node have changed since it was read. It returns false
// if that read failed, because it is retried.
func isChanged(stat *zk.Stat, known *node) bool {
	return known.err == nil && (!known.exists || stat.Pzxid != known.stat.Pzxid || stat.Czxid != known.stat.Czxid)
}

// nextAudit returns the path of the next root or service node to compare, in the order of paths and
// then from the beginning. It returns "" if there is none. It records the path as the last compared
// path.
func (s *session) nextAudit() string {
	isList := func(path string) bool {
		kind, _ := s.settings.layoutOf(path)
		return kind == rootNode || kind == serviceNode
	}
	var first, next string
	for path := range s.nodes {
		if !isList(path) {
			continue
		}
		if first == "" || path < first {
			first = path
		}
		if path > s.audited && (next == "" || path < next) {
			next = path
		}
	}
	if next == "" {
		next = first
	}
	s.audited = next
	return next
}
