package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// layout is the part of a tree that a path belongs to.
type layout int

const (
	other       layout = iota
	rootNode           // a list of services
	serviceNode        // a list of instances
	contentNode        // an instance whose content describes it
)

// providers is the node of an interface that has the URLs of its providers.
const providers = "/providers"

// dubboReserved are nodes below Dubbo's root that are no interfaces.
var dubboReserved = map[string]bool{"config": true, "mapping": true, "metadata": true}

// layoutOf returns the kind of node at a path, and the path of the service that the node belongs
// to. That is "" for roots and for other nodes.
func (s *Settings) layoutOf(path string) (layout, string) {
	if rest, ok := below(path, s.DubboRoot); ok {
		name, list := strings.CutSuffix(rest, providers)
		switch {
		case rest == "":
			return rootNode, ""
		case list && name != "" && !strings.Contains(name, "/"):
			return serviceNode, path
		}
		return other, ""
	}
	if rest, ok := below(path, s.ServicesRoot); ok {
		switch service, instance, isInstance := strings.Cut(rest, "/"); {
		case rest == "":
			return rootNode, ""
		case !isInstance:
			return serviceNode, path
		case !strings.Contains(instance, "/"):
			return contentNode, s.ServicesRoot + "/" + service
		}
	}
	return other, ""
}

// below returns the rest of a path below a root, without a slash at its beginning. ok is false if
// it is elsewhere, or if the root is empty.
func below(path, root string) (rest string, ok bool) {
	if root == "" {
		return "", false
	}
	if path == root {
		return "", true
	}
	return strings.CutPrefix(path, root+"/")
}

// servicePath returns the path with the instances of a child of a root. It returns "" for a child
// of Dubbo's root that is no interface.
func (s *Settings) servicePath(root, child string) string {
	switch {
	case root != s.DubboRoot:
		return root + "/" + child
	case dubboReserved[child]:
		return ""
	default:
		return root + "/" + child + providers
	}
}

// node is what was read at a path.
type node struct {
	path     string
	exists   bool
	children []string // of a root or a service
	content  []byte   // of an instance
	stat     zk.Stat
	err      error
}

// errRead is the error of a read that panicked.
var errRead = errors.New("the read panicked")

// concurrentReads limits the reads that wait for an answer. The library sends them on one
// connection.
const concurrentReads = 32

// readAll reads the nodes at paths, concurrentReads at a time, and sets a watch on each. It returns
// them in the order of paths when all are read. A failed read, and a panic, is an error of its
// node.
func (s *Settings) readAll(ctx context.Context, c *zk.Conn, paths []string) []node {
	list := make([]node, len(paths))
	slots := make(chan struct{}, concurrentReads)
	var running sync.WaitGroup
	for i, path := range paths {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			list[i] = node{path: path, err: errRead}
			_ = recovery.Call(ctx, "task", func() error {
				list[i] = s.read(c, path)
				return nil
			}, "task", "ZooKeeper", "path", path)
		})
	}
	running.Wait()
	return list
}

// read reads the content or the children of a node and sets a watch on it. A missing node is no
// error. The watch of a root or of Dubbo's providers also reports that a missing node is created.
func (s *Settings) read(c *zk.Conn, path string) node {
	n := node{path: path}
	kind, _ := s.layoutOf(path)
	if kind == contentNode {
		content, stat, _, err := c.GetW(path)
		return n.completed(stat, err, func() { n.content = content })
	}
	for {
		children, stat, _, err := c.ChildrenW(path)
		awaitsCreation := kind == rootNode || strings.HasSuffix(path, providers) && path != s.ServicesRoot+providers
		if !errors.Is(err, zk.ErrNoNode) || !awaitsCreation {
			return n.completed(stat, err, func() { n.children = children })
		}
		exists, _, _, err := c.ExistsW(path)
		if err != nil || !exists {
			n.err = err
			return n
		}
	}
}

// completed returns the node with the result of a read, after it has called set if the node exists.
// A node that does not exist is no error.
func (n *node) completed(stat *zk.Stat, err error, set func()) node {
	switch {
	case errors.Is(err, zk.ErrNoNode):
	case err != nil:
		n.err = err
	default:
		n.exists, n.stat = true, *stat
		set()
	}
	return *n
}

// isDenied reports whether an error means that the client lacks a right.
func isDenied(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed)
}

// errText returns err with the path that could not be read, for a Problem.
func errText(path string, err error) error { return fmt.Errorf("read %s: %w", path, err) }
