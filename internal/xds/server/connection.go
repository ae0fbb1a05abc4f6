package server

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc/mem"
)

// connection is a connection as gRPC sees it. It counts unread messages and written bytes.
type connection struct {
	net.Conn
	link   *link
	frames frames
}

// trackConnection returns the connection that gRPC must use in place of conn: it counts written
// bytes and charges unread messages to l. If conn is a *net.TCPConn, the result also implements
// readyreader.Reader, so that an idle one holds no read buffer. Connections with TLS do not.
func trackConnection(conn net.Conn, l *link) net.Conn {
	c := connection{Conn: conn, link: l, frames: frames{preface: prefaceLength}}
	tcp, plain := conn.(*net.TCPConn)
	if !plain {
		return &c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return &c
	}
	r := &readyConnection{connection: c, raw: raw}
	r.read = r.readReady
	return r
}

// Read reads, and charges the DATA frames that begin in what it read to the port's unread budget.
// While there is no room it blocks, and closes stalled connections of the port. After a time
// without room, or if the connection is closed, it returns an error and no bytes.
func (c *connection) Read(b []byte) (int, error) {
	began := c.link.beginRead()
	n, err := c.Conn.Read(b)
	waited := c.link.endRead(began)
	if n > 0 {
		if err := c.chargeFrames(b[:n], waited); err != nil {
			return 0, err
		}
	}
	return n, err
}

// chargeFrames charges the DATA frames that begin in b, the next bytes read, to the port's unread
// budget; waited is how long the client was waited for. It may block, and returns an error if there
// is no room in time.
func (c *connection) chargeFrames(b []byte, waited time.Duration) error {
	carried, count := c.frames.countData(b)
	if count == 0 {
		return nil
	}
	return c.link.port.unread.charge(c.link, carried, count, waited)
}

// Write writes b and counts the bytes that were written.
func (c *connection) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.link.written.Add(int64(n))
	return n, err
}

// Close marks the connection as aborted and closes it. The first call also removes it from the
// connections that newer ones may displace, and credits its unread bytes.
func (c *connection) Close() error {
	c.link.aborted.Store(true)
	c.link.release.Do(func() {
		c.link.pending.remove()
		c.link.port.unread.creditAll(c.link)
	})
	return c.Conn.Close()
}

// readyConnection is a TCP connection that takes its read buffer from a pool when data is
// available. gRPC does this by itself only for connections of type *net.TCPConn.
type readyConnection struct {
	connection
	raw  syscall.RawConn
	read func(fd uintptr) bool // readReady, bound once

	// The arguments and results of the current read. There is at most one read at a time.
	size   int
	pool   mem.BufferPool
	buffer *[]byte
	n      int
	err    error
}

// ReadOnReady implements gRPC's readyreader.Reader. It waits until data has arrived and only then
// takes a buffer from pool. It charges DATA frames to the unread budget, which may block or fail.
// If no byte arrives, it returns io.EOF. On an error it returns the buffer to pool.
func (c *readyConnection) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.size, c.pool = size, pool
	began := c.link.beginRead()
	err := c.raw.Read(c.read)
	waited := c.link.endRead(began)
	buffer, n := c.buffer, c.n
	if err == nil {
		err = c.err
	}
	c.pool, c.buffer, c.n, c.err = nil, nil, 0, nil
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	default:
		err = c.chargeFrames((*buffer)[:n], waited)
	}
	if err != nil {
		if buffer != nil {
			pool.Put(buffer)
		}
		return nil, 0, err
	}
	return buffer, n, nil
}

// readReady reads once without blocking, into a buffer from the pool, and stores the result in
// c.buffer, c.n and c.err. It returns false, without a buffer, only if no data is available yet;
// after an error it returns true, also without a buffer.
func (c *readyConnection) readReady(fd uintptr) bool {
	c.buffer = c.pool.Get(c.size)
	for {
		c.n, c.err = readDescriptor(fd, *c.buffer)
		if !errors.Is(c.err, syscall.EINTR) {
			break
		}
	}
	if c.err == nil {
		return true
	}
	c.pool.Put(c.buffer)
	c.buffer, c.n = nil, 0
	return !errors.Is(c.err, syscall.EAGAIN)
}
