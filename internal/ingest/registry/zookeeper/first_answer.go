package zookeeper

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// maxFirstAnswer limits the size of a server's first answer, which has about 40 bytes.
const maxFirstAnswer = 1024

// firstAnswer is a connection that fails if the server's first answer is larger than
// maxFirstAnswer. It is not ZooKeeper's then, such as that of an HTTP server, and the library would
// allocate what its first four bytes say: 1.2 GB for "HTTP".
type firstAnswer struct {
	net.Conn

	address string
	// result is called with nil after the size of the first answer, or with the reason why there is
	// no such answer.
	result func(error)
	size   []byte // its first bytes, four of them when it is known
}

// Read reads from the connection. The first answer begins with its length: if that exceeds
// maxFirstAnswer, the server is no ZooKeeper server, which is an error. Once the length is known or
// the connection fails, it calls c.result.
func (c *firstAnswer) Read(p []byte) (int, error) {
	if len(c.size) == 4 {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p[:min(len(p), 4-len(c.size))])
	c.size = append(c.size, p[:n]...)
	switch {
	case len(c.size) == 4 && binary.BigEndian.Uint32(c.size) > maxFirstAnswer:
		err = fmt.Errorf("%s answers, but not as a ZooKeeper server does", c.address)
		c.result(err)
		return 0, err // io.ReadFull ignores an error after all bytes
	case len(c.size) == 4:
		c.result(nil)
	case err != nil:
		c.result(fmt.Errorf("%s ended the connection without an answer: %w", c.address,
			clienttls.WithoutClientPort(err)))
	}
	return n, err
}
