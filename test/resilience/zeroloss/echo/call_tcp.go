package echo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

type tcpCaller struct {
	long    bool
	dial    Dial
	address string

	conn net.Conn // the long one, if it is open
	in   *bufio.Reader
}

func newTCPCaller(kind Kind, dial Dial, host string, port int) *tcpCaller {
	return &tcpCaller{long: kind == TCP, dial: dial, address: net.JoinHostPort(host, strconv.Itoa(port))}
}

func (c *tcpCaller) Call(ctx context.Context, id string) (Reply, error) {
	if c.conn == nil {
		conn, err := c.dial(ctx, "tcp", c.address)
		if err != nil {
			return Reply{}, err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	r, err := c.exchangeLine(ctx, id)
	if err != nil {
		// Envoy's access log identifies a connection only by its client's address.
		err = fmt.Errorf("connection from %s: %w", c.conn.LocalAddr(), err)
	}
	if err != nil || !c.long {
		c.Close()
	}
	return r, err
}

func (c *tcpCaller) exchangeLine(ctx context.Context, id string) (Reply, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Time{}
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return Reply{}, err
	}
	if _, err := io.WriteString(c.conn, id+"\n"); err != nil {
		return Reply{}, err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return Reply{}, err
	}
	return parseReply(line, id)
}

func (c *tcpCaller) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
