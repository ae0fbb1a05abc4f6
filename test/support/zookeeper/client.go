package zookeeper

import (
	"errors"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Client is a client of a server, with one session.
type Client struct {
	*zk.Conn

	t testing.TB
}

// Client returns a client with a session of its own. The session ends with the test, or by Close.
// The nodes that it registered disappear with the session.
func (s *Server) Client() *Client {
	s.t.Helper()
	conn, _, err := zk.Connect([]string{s.Address}, sessionTimeout, zk.WithLogger(discard{}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return &Client{conn, s.t}
}

type discard struct{}

// Printf implements zk.Logger. It does nothing.
func (discard) Printf(string, ...any) {}

const (
	// sessionTimeout is that of clients. A session that expires on a slow machine would deregister its nodes.
	sessionTimeout = time.Minute
	// reconnectTime is the time within which a client must be able to change a node. It loses its connection
	// while a server restarts or an ensemble elects a leader.
	reconnectTime = time.Minute
)

// Register creates an ephemeral node with this content, and its missing parents as permanent nodes. If
// the connection is lost, it tries again.
func (c *Client) Register(node, content string) {
	c.t.Helper()
	c.createParents(path.Dir(node))
	serving.Eventually(c.t, reconnectTime, "the creation of "+node, func() error {
		_, err := c.Create(node, []byte(content), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) && c.owns(node) { // the answer was lost
			return nil
		}
		return err
	})
}

// owns reports whether a node is an ephemeral one of this session.
func (c *Client) owns(node string) bool {
	_, stat, err := c.Exists(node)
	return err == nil && stat.EphemeralOwner == c.SessionID()
}

func (c *Client) createParents(node string) {
	c.t.Helper()
	if node == "/" {
		return
	}
	c.createParents(path.Dir(node))
	serving.Eventually(c.t, reconnectTime, "the creation of "+node, func() error {
		if _, err := c.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		return nil
	})
}

// Deregister deletes a node, which must exist. If the connection is lost, it tries again.
func (c *Client) Deregister(node string) {
	c.t.Helper()
	lost := false // an answer, after which the node may be deleted
	serving.Eventually(c.t, reconnectTime, "the deletion of "+node, func() error {
		err := c.Delete(node, -1)
		if errors.Is(err, zk.ErrNoNode) {
			if !lost {
				c.t.Fatalf("delete %s: %v", node, err)
			}
			return nil
		}
		lost = err != nil
		return err
	})
}

// Update replaces the content of a node. If the connection is lost, it tries again.
func (c *Client) Update(node, content string) {
	c.t.Helper()
	serving.Eventually(c.t, reconnectTime, "the update of "+node, func() error {
		_, err := c.Set(node, []byte(content), -1)
		return err
	})
}
