package hostileclients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// drain reads the answer for a short time.
func drain(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(answerTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
}

func noise(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, err := a.dial(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write(random(r, 1+r.IntN(64<<10)))
	drain(c)
	return err
}

// halfHello sends the beginning of a TLS handshake whose record is shorter than its header claims.
func halfHello(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, err := a.dial(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	hello := []byte{22, 3, 1, 0xff, 0xff, 1, 0, 0xff, 0xf0, 3, 3}
	_, err = c.Write(append(hello, random(r, r.IntN(300))...))
	drain(c)
	return err
}

func slow(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, err := a.inside(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, b := range []byte("GET / HTTP/1.1\r\nHost: x\r\nX-" + strings.Repeat("a", 20)) {
		if ctx.Err() != nil {
			return nil
		}
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
	}
	return nil
}

func hugeHeaders(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, err := a.inside(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	line := strings.Repeat("x", 1<<16)
	if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: x\r\n", strings.Repeat("y", r.IntN(1<<16))); err != nil {
		return err
	}
	for i := range 64 {
		if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, line); err != nil {
			return err
		}
	}
	drain(c)
	return nil
}

func path(r *rand.Rand, d door) string {
	if len(d.Paths) == 0 {
		return "/"
	}
	return d.Paths[r.IntN(len(d.Paths))]
}

func hugeBody(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, err := a.inside(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c,
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
		path(r, d)); err != nil {
		return err
	}
	chunk := append([]byte("100000\r\n"), bytes.Repeat([]byte(`{"a":[`), 1<<20/6+1)[:1<<20]...)
	chunk = append(chunk, "\r\n"...)
	for range 32 {
		if _, err := c.Write(chunk); err != nil {
			return err
		}
	}
	drain(c)
	return nil
}

// nested sends a small document that is nested deeply, or expands by YAML anchors.
func nested(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, err := a.inside(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	body := strings.Repeat(`{"request":`, 100_000)
	if r.IntN(2) == 0 {
		body = "a: &a [x]\n" + strings.Repeat("b: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n", 1000)
	}
	_, err = fmt.Fprintf(c,
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path(r, d), len(body), body)
	drain(c)
	return err
}

// dnsNonsense sends packets that are no DNS queries, or malformed ones.
func dnsNonsense(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, err := a.dial(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 50 {
		question := random(r, 12+r.IntN(1200))
		switch r.IntN(4) {
		case 0: // announces thousands of records and contains none
			copy(question, []byte{0, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
		case 1: // a name that points to itself
			copy(question, []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
		case 2: // an answer
			copy(question, []byte{0, 1, 0x81, 0x80, 0, 1, 0, 1})
		}
		if d.Network == "tcp" {
			question = append([]byte{byte(r.Uint32()), byte(r.Uint32())}, question...)
		}
		if _, err := c.Write(question); err != nil {
			return err
		}
	}
	return nil
}
