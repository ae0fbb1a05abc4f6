package serving

import (
	"net"
	"sync/atomic"
)

// CountReads returns c with a Read that adds the number of bytes to n.
func CountReads(c net.Conn, n *atomic.Int64) net.Conn { return countedConn{c, n} }

type countedConn struct {
	net.Conn

	n *atomic.Int64
}

// Read implements net.Conn.
func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}
