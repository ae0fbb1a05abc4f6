package hostileclients

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// door is a port that is attacked.
type door struct {
	Name             string
	Network, Address string
	// TLS is true if the server speaks behind a handshake, which is attacked too.
	TLS bool
	// GRPC and HTTP name the protocols of the port. Paths are pages of an HTTP server that accept
	// requests.
	GRPC, HTTP bool
	Paths      []string
}

// identity is a workload's certificate or token. The zero value is an anonymous client.
type identity struct {
	Certificate, Key []byte // PEM
	Token            string
	Account          string
}

// order is the task of the attacker process.
type order struct {
	Attack    string
	Doors     []door
	Sources   []string // local addresses of TCP connections, used in turn
	Length    time.Duration
	Workers   int
	Pause     time.Duration // between two attacks of a worker
	Seed      uint64
	Namespace string // that of the honest proxies
	Domain    string // the DNS domain in node ids
	// Identities are what the workers have proven, in turn. Empty: they are anonymous.
	Identities []identity
}

// outcome is the report of the attacker process: the number of attacks, and samples of the victim's
// answers.
type outcome struct {
	Made   int64
	Errors map[string]int
	// Count is a number that the attack itself defines, such as the most streams that a connection
	// had.
	Count int64
}

// attacker is a worker of an attack.
type attacker struct {
	order
	*tally
	identity identity
}

// tally is the shared state of the workers of an attack.
type tally struct {
	mu     sync.Mutex
	result outcome
	next   atomic.Uint64 // of the source addresses
}

const (
	dialTime = 10 * time.Second
	// answerTime is how long an attacker waits for an answer.
	answerTime = 150 * time.Millisecond
	// attackerNice is the priority of attackers (nice(2)): the victim and the honest clients are
	// scheduled first, as if the attacker had a machine of its own.
	attackerNice = 10
)

// runAttacker reads an order, attacks, and writes the outcome.
func runAttacker(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, attackerNice) // it may be lower already
	do := findAttack(o.Attack)
	if do == nil {
		return fmt.Errorf("no attack %q", o.Attack)
	}
	if _, err := io.WriteString(out, "\n"); err != nil { // it begins
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Length)
	defer cancel()
	go func() { // the parent closes the pipe to end the attack early
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	shared := &tally{result: outcome{Errors: map[string]int{}}}
	var all sync.WaitGroup
	for i, d := range o.Doors {
		for j := range max(o.Workers, 1) {
			r := rand.New(rand.NewPCG(o.Seed, uint64(i*1000+j))) //nolint:gosec // noise
			a := &attacker{order: o, tally: shared}
			if n := len(o.Identities); n > 0 {
				a.identity = o.Identities[j%n]
			}
			all.Go(func() { a.repeat(ctx, r, d, do) })
		}
	}
	all.Wait()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return json.NewEncoder(out).Encode(shared.result)
}

func (a *attacker) repeat(ctx context.Context, r *rand.Rand, d door, do attackFunc) {
	for ctx.Err() == nil {
		err := do(ctx, a, r, d)
		a.mu.Lock()
		a.result.Made++
		if err != nil && ctx.Err() == nil {
			text := err.Error()
			text = text[:min(len(text), 100)]
			if a.result.Errors[text] > 0 || len(a.result.Errors) < 8 {
				a.result.Errors[text]++
			}
		}
		a.mu.Unlock()
		pause(ctx, max(a.Pause, 5*time.Millisecond))
	}
}

// count raises the attack's own number to n.
func (a *attacker) count(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result.Count = max(a.result.Count, n)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// dial connects from the next source address.
func (a *attacker) dial(ctx context.Context, d door) (net.Conn, error) {
	c, err := a.dialIdle(ctx, d)
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	}
	return c, err
}

// dialIdle is dial for a connection that lives as long as the attack.
func (a *attacker) dialIdle(ctx context.Context, d door) (net.Conn, error) {
	source := honestSource
	if n := uint64(len(a.Sources)); n > 0 {
		source = a.Sources[a.next.Add(1)%n]
	}
	return dialFrom(ctx, source, d.Network, d.Address)
}

// inside returns a connection after the handshake, where the port has one.
func (a *attacker) inside(ctx context.Context, d door, protocols ...string) (net.Conn, error) {
	c, err := a.dial(ctx, d)
	if err != nil || !d.TLS {
		return c, err
	}
	t := tls.Client(c, a.tlsConfig(protocols...))
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return t, nil
}

func (a *attacker) tlsConfig(protocols ...string) *tls.Config {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols} //nolint:gosec // an attacker
	if pair, err := tls.X509KeyPair(a.identity.Certificate, a.identity.Key); err == nil {
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// connect returns a gRPC client of the port, with the attacker's certificate if it has one.
func (a *attacker) connect(d door, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if d.TLS {
		security = credentials.NewTLS(a.tlsConfig())
	}
	return grpc.NewClient("passthrough:///"+d.Address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return a.dialIdle(ctx, d) }),
	}, more...)...)
}

// attack is a running attacker process.
type attack struct {
	command *exec.Cmd
	stop    io.Closer
	out     *output
	stderr  bytes.Buffer
	done    chan error
}

// output is what the attacker writes: a line when it begins, and its outcome.
type output struct {
	text  bytes.Buffer
	begun chan struct{}
	once  sync.Once
}

func (o *output) Write(p []byte) (int, error) {
	o.once.Do(func() { close(o.begun) })
	return o.text.Write(p)
}

// startAttack starts the attacker as a process of its own, which ends with the test.
func startAttack(t *testing.T, o order) *attack {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	a := &attack{
		command: exec.CommandContext(t.Context(), os.Args[0]), done: make(chan error, 1),
		out: &output{begun: make(chan struct{})},
	}
	a.command.Env = append(os.Environ(), attackerVariable+"=true", "GOMEMLIMIT=1GiB")
	a.command.Stdout, a.command.Stderr = a.out, &a.stderr
	stdin, err := a.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.stop = stdin
	if err := a.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = stdin.Write(append(text, '\n')) // an attacker that ended reports an error
		a.done <- a.command.Wait()
	}()
	return a
}

// wait returns the outcome once the attacker has ended. It kills an attacker that does not end.
func (a *attack) wait(limit time.Duration) (o outcome, err error) {
	select {
	case err = <-a.done:
	case <-time.After(limit):
		_ = a.command.Process.Kill()
		err = fmt.Errorf("the attacker did not end: %w", <-a.done)
	}
	if err != nil {
		return o, fmt.Errorf("%w: %.2000s", err, a.stderr.String())
	}
	return o, json.Unmarshal(a.out.text.Bytes(), &o)
}
