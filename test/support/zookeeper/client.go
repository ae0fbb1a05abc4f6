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
	conn, _, err := zk.Connect([]string{s.Address}, 10*time.Second, zk.WithLogger(discard{}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return &Client{conn, s.t}
}

type discard struct{}

// Printf implements zk.Logger. It does nothing.
func (discard) Printf(string, ...any) {}

// reconnectTime is the time within which a client must be able to create a node. It loses its
// connection while an ensemble elects a leader.
const reconnectTime = 30 * time.Second

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

// Deregister deletes a node.
func (c *Client) Deregister(node string) {
	c.t.Helper()
	if err := c.Delete(node, -1); err != nil {
		c.t.Fatalf("delete %s: %v", node, err)
	}
}

// Update replaces the content of a node.
func (c *Client) Update(node, content string) {
	c.t.Helper()
	if _, err := c.Set(node, []byte(content), -1); err != nil {
		c.t.Fatalf("update %s: %v", node, err)
	}
}
