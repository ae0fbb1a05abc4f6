package server

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

const frame = 16 << 10 // the payload of a DATA frame

// testLink returns a connection that is being received, whose other end is discarded.
func testLink(t *testing.T) *link {
	t.Helper()
	server, client := net.Pipe()
	t.Cleanup(func() { server.Close(); client.Close() })
	l := &link{conn: server, since: time.Now()}
	l.beginReceive()
	return l
}

// chargeMessage charges a message in frames, and reports whether it arrived in full.
func chargeMessage(b *unreadBudget, l *link, size int) bool {
	for rest := size; rest > 0; rest -= frame {
		if b.charge(l, min(rest, frame), 1, 0) != nil {
			return false
		}
	}
	b.markArrived(l, size)
	return true
}

// wantSettled fails the test unless no byte is charged and no charge waits.
func wantSettled(t *testing.T, b *unreadBudget) {
	t.Helper()
	if n := b.inUse(); n != 0 || len(b.holders) != 0 || len(b.waiting) != 0 || b.finisher != nil {
		t.Errorf("%d bytes of %d connections are charged in the end, %d wait", n, len(b.holders), len(b.waiting))
	}
}

// TestFleetLargerThanTheUnreadBudget has 400 connections send large messages at once, ten times the
// budget together, while two of them are decoded at a time. All are served, and none is closed.
func TestFleetLargerThanTheUnreadBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections, size = 400, 400 << 10
		b := newUnreadBudget(connections * size / 10)
		decoding := make(chan struct{}, 2)
		var done sync.WaitGroup
		for range connections {
			l := testLink(t)
			done.Go(func() {
				for range 3 {
					if !chargeMessage(b, l, size) {
						t.Error("a connection was refused")
						return
					}
					decoding <- struct{}{}
					time.Sleep(4 * time.Millisecond)
					<-decoding
					b.credit(l, size)
					if n := b.inUse(); n > b.size {
						t.Errorf("%d bytes are charged, more than the budget", n)
					}
				}
			})
		}
		done.Wait()
		if b.closed != 0 {
			t.Errorf("%d connections were closed", b.closed)
		}
		wantSettled(t, b)
	})
}

// TestSmallMessagesPassLargeOnes: while large messages wait for room, and others wait to be decoded,
// a small one does not wait.
func TestSmallMessagesPassLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newUnreadBudget(1 << 20)
		decoders := make(chan struct{})
		var done sync.WaitGroup
		for range 10 {
			l := testLink(t)
			done.Go(func() {
				if !chargeMessage(b, l, 300<<10) {
					t.Error("a connection was refused")
				}
				<-decoders
				b.credit(l, 300<<10)
			})
		}
		synctest.Wait()
		w := b.tryCharge(testLink(t), 200<<10, 1, 0)
		if w == nil {
			t.Fatal("the budget is not used up")
		}
		b.removeWaiter(w)
		small := testLink(t)
		if w := b.tryCharge(small, 3<<10, 1, 0); w != nil {
			t.Error("a small message waits")
		}
		b.credit(small, 3<<10)
		close(decoders)
		done.Wait()
		wantSettled(t, b)
	})
}

// TestStalledConnectionsMakeRoom: clients that stop in the middle of a message are closed when
// others need the room, and clients that send a little now and then are closed later.
func TestStalledConnectionsMakeRoom(t *testing.T) {
	for name, pause := range map[string]time.Duration{"stalled": time.Hour, "slow": 700 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newUnreadBudget(1 << 20)
				bad := testLink(t)
				go func() {
					for !bad.aborted.Load() {
						began := bad.beginRead()
						time.Sleep(pause)
						if b.charge(bad, 1, 1, bad.endRead(began)) != nil {
							return
						}
					}
				}()
				if err := b.charge(bad, 450<<10, 1, 0); err != nil { // as the finisher
					t.Error(err)
				}
				synctest.Wait()
				began := time.Now()
				good := testLink(t)
				if !chargeMessage(b, good, 450<<10) {
					t.Error("a connection was refused")
				}
				if took := time.Since(began); took > slowAfter+time.Second || !bad.aborted.Load() {
					t.Errorf("the other connection is closed: %v, after %v", bad.aborted.Load(), took)
				}
				b.credit(good, 450<<10)
				time.Sleep(2 * pause) // the bad client ends
				wantSettled(t, b)
			})
		})
	}
}

// TestDataThatNoStreamReceives: connections with data that no stream receives, such as for a method
// that does not exist, are closed when others need the room.
func TestDataThatNoStreamReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newUnreadBudget(1 << 20)
		var bad []*link
		for range 4 {
			l := testLink(t)
			l.endReceive()
			if b.charge(l, 100<<10, 1, 0) != nil {
				t.Fatal("a connection was refused")
			}
			bad = append(bad, l)
		}
		good := testLink(t)
		if !chargeMessage(b, good, 300<<10) {
			t.Error("a connection was refused")
		}
		for i, l := range bad {
			if !l.aborted.Load() {
				t.Errorf("connection %d is open", i)
			}
		}
		b.credit(good, 300<<10)
		wantSettled(t, b)
	})
}

// TestConnectionWithManyUnfinishedMessages: a connection that fills the budget with unfinished
// messages of many streams is closed, although its client never stalls.
func TestConnectionWithManyUnfinishedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newUnreadBudget(1 << 20)
		bad, good := testLink(t), testLink(t)
		var done sync.WaitGroup
		done.Go(func() {
			for b.charge(bad, frame, 1, 0) == nil {
			}
		})
		synctest.Wait()
		began := time.Now()
		if !chargeMessage(b, good, 450<<10) {
			t.Error("a connection was refused")
		}
		if took := time.Since(began); took > 2*stallAfter || !bad.aborted.Load() {
			t.Errorf("the other connection is closed: %v, after %v", bad.aborted.Load(), took)
		}
		done.Wait()
		b.credit(good, 450<<10)
		wantSettled(t, b)
	})
}

// TestNoRoomInTime: a connection that finds no room for long is refused, as is a closed one, and
// frames are charged what gRPC needs for them besides their payload.
func TestNoRoomInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newUnreadBudget(1 << 20)
		busy := []*link{testLink(t), testLink(t)}
		for _, l := range busy { // the second as the finisher
			if !chargeMessage(b, l, 350<<10) {
				t.Fatal("the first messages are refused")
			}
		}
		began := time.Now()
		if b.charge(testLink(t), 300<<10, 1, 0) == nil {
			t.Error("more than the budget was charged")
		}
		if took := time.Since(began); took < b.wait || took > b.wait+time.Second {
			t.Errorf("a connection was refused after %v, want %v", took, b.wait)
		}
		for _, l := range busy {
			if l.aborted.Load() {
				t.Error("a connection whose message is being decoded was closed")
			}
			b.credit(l, 350<<10)
		}
		closed := testLink(t)
		closed.abort()
		if b.charge(closed, 1, 1, 0) == nil {
			t.Error("a closed connection is charged")
		}
		wantSettled(t, b)
		tiny := testLink(t)
		for range 3000 { // a message that arrives byte by byte
			if err := b.charge(tiny, 1, 1, 0); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.inUse(); n != 3000*129 {
			t.Errorf("3,000 frames of one byte are charged %d bytes", n)
		}
	})
}

// TestProxiesThatReconnectAtOnce: real clients come back with more state than the port may hold
// undecoded. Each is answered on its first stream.
func TestProxiesThatReconnectAtOnce(t *testing.T) {
	const proxies = 40
	h := serveOver(t, 1, Options{}, Transport{Limits: Limits{PendingPerSource: 1000, Request: 1 << 20, Unread: 2 << 20}})
	p := h.port()
	held := state(300 << 10)
	var clients []*client
	for i := range proxies {
		clients = append(clients, h.connect(stream.Delta, testNode(i)))
	}
	var sending sync.WaitGroup
	for _, c := range clients {
		sending.Go(func() {
			err := c.delta.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: c.node, InitialResourceVersions: held})
			if err != nil {
				t.Error(err)
			}
		})
	}
	sending.Wait()
	for _, c := range clients {
		c.want(api.ClusterType)
	}
	p.unread.mu.Lock()
	defer p.unread.mu.Unlock()
	if p.unread.closed != 0 {
		t.Errorf("%d connections were closed", p.unread.closed)
	}
}
