package fleet

import (
	"net"
	"sync/atomic"
)

// NewSlowConn makes a connection that is read slowly.
func NewSlowConn(c net.Conn, bytesPerSecond int64) net.Conn {
	rate := new(atomic.Int64)
	rate.Store(bytesPerSecond)
	return &slowConn{Conn: c, rate: rate}
}
