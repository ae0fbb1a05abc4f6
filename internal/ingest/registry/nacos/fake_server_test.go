package nacos

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// fakeServer answers as a server of Nacos 2 does, by its published protocol. No real server was
// available (docs/NACOS.md).
type fakeServer struct {
	mu       sync.Mutex
	address  string                // of HTTP
	services map[string][]instance // by "group@@name"
	denied   map[string]bool       // services that may not be subscribed to
	token    string
	slow     int  // requests that are refused because the connection is not set up yet
	garbage  bool // answers are no JSON
	requests []string
	acks     []string
	streams  map[string]*pushStream // by the address of the client's end of the connection
	ended    chan struct{}          // closed to end all streams
}

// pushStream is the stream of pushes of one connection.
type pushStream struct {
	out        chan *payload
	subscribed map[string]bool // services
}

// newFakeServer starts a server at a free port for HTTP, and the port for gRPC that is higher by
// portOffset. If security is not nil, both have TLS.
func newFakeServer(t testing.TB, security *tls.Config) *fakeServer {
	t.Helper()
	f := &fakeServer{
		services: map[string][]instance{}, denied: map[string]bool{}, token: "secret",
		streams: map[string]*pushStream{}, ended: make(chan struct{}), slow: 2,
	}
	for range 50 {
		login := httptest.NewUnstartedServer(http.HandlerFunc(f.login))
		options := []grpc.ServerOption{grpc.ForceServerCodec(codec{}), grpc.UnknownServiceHandler(f.serve)}
		if login.TLS = security; security != nil {
			login.StartTLS()
			options = append(options, grpc.Creds(credentials.NewTLS(security)))
		} else {
			login.Start()
		}
		f.address = login.Listener.Addr().String()
		host, text, _ := net.SplitHostPort(f.address)
		port, _ := strconv.Atoi(text)
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+portOffset)))
		if err != nil {
			login.Close()
			continue
		}
		s := grpc.NewServer(options...)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() {
			s.Stop()
			login.Close()
		})
		return f
	}
	t.Fatal("no free pair of ports")
	return nil
}

func (f *fakeServer) login(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/nacos/v3/auth/user/login":
		http.NotFound(w, r)
	case r.FormValue("username") != "mesh" || r.FormValue("password") != "pass":
		http.Error(w, "user not found!", http.StatusForbidden)
	default:
		fmt.Fprint(w, `{"accessToken":"secret","tokenTtl":18000,"globalAdmin":false}`)
	}
}

// edit changes the server, and pushes the changed services to their subscribers.
func (f *fakeServer) edit(change func(), changed ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	for _, stream := range f.streams {
		for _, name := range changed {
			if stream.subscribed[name] {
				stream.out <- &payload{kind: notifyRequest, body: f.encode(map[string]any{"requestId": "push-" + name, "serviceInfo": f.info(name)})}
			}
		}
	}
}

// send sends a message to all connections.
func (f *fakeServer) send(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, stream := range f.streams {
		stream.out <- &payload{kind: kind, body: []byte(`{"requestId":"` + kind + `"}`)}
	}
}

// connections returns how often a client has connected.
func (f *fakeServer) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, ack := range f.acks {
		if ack == connectionSetupRequest {
			n++
		}
	}
	return n
}

// cut ends all connections.
func (f *fakeServer) cut(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.ended)
	f.ended = make(chan struct{})
}

func (f *fakeServer) encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func (f *fakeServer) info(name string) serviceInfo {
	group, short, _ := strings.Cut(name, "@@")
	return serviceInfo{Name: short, GroupName: group, Hosts: f.services[name]}
}

func (f *fakeServer) serve(_ any, s grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(s); method == methodStream {
		return f.serveStream(s)
	}
	var in payload
	if err := s.RecvMsg(&in); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return s.SendMsg(f.answer(clientOf(s), &in))
}

// clientOf returns the address of the client's end of the connection.
func clientOf(s grpc.ServerStream) string {
	p, _ := peer.FromContext(s.Context())
	return p.Addr.String()
}

// answer returns the answer to a request of a client. Before the client's stream of pushes is known,
// requests are refused.
func (f *fakeServer) answer(client string, in *payload) *payload {
	refuse := func(code int, message string) *payload {
		return &payload{kind: "ErrorResponse", body: f.encode(map[string]any{"resultCode": 500, "errorCode": code, "message": message})}
	}
	var r request
	if err := json.Unmarshal(in.body, &r); err != nil {
		return refuse(codeUnregistered, "no JSON")
	}
	f.requests = append(f.requests, strings.TrimSpace(in.kind+" "+r.GroupName+" "+r.ServiceName))
	answer := map[string]any{"resultCode": codeSuccess, "errorCode": 0, "message": "success"}
	name := r.GroupName + "@@" + r.ServiceName
	stream := f.streams[client]
	if stream == nil && in.kind != serverCheckRequest {
		return refuse(codeUnregistered, "Connection is unregistered.")
	}
	switch in.kind {
	case serverCheckRequest:
	case healthCheckRequest:
		if f.slow > 0 {
			f.slow--
			return refuse(codeUnregistered, "Connection is unregistered.")
		}
	case serviceListRequest:
		var names []string
		for n := range f.services {
			if strings.HasPrefix(n, r.GroupName+"@@") {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		answer["count"], answer["serviceNames"] = len(names), names[min(len(names), (r.PageNo-1)*r.PageSize):min(len(names), r.PageNo*r.PageSize)]
	case subscribeRequest:
		if f.denied[name] {
			return refuse(codeForbidden, "authorization failed!")
		}
		stream.subscribed[name] = true
		answer["serviceInfo"] = f.info(name)
	}
	if f.garbage {
		return &payload{kind: "Response", body: []byte("<html>")}
	}
	return &payload{kind: strings.TrimSuffix(in.kind, "Request") + "Response", body: f.encode(answer)}
}

// serveStream pushes messages until the client or cut ends the stream.
func (f *fakeServer) serveStream(s grpc.ServerStream) error {
	stream := &pushStream{make(chan *payload, 100), map[string]bool{}}
	f.mu.Lock()
	f.streams[clientOf(s)] = stream
	ended := f.ended
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, clientOf(s))
	}()
	received := make(chan error, 1)
	go func() {
		for {
			var in payload
			if err := s.RecvMsg(&in); err != nil {
				received <- err
				return
			}
			var ack push
			_ = json.Unmarshal(in.body, &ack)
			f.mu.Lock()
			f.acks = append(f.acks, strings.TrimSpace(in.kind+" "+ack.ID))
			f.mu.Unlock()
		}
	}()
	for {
		select {
		case p := <-stream.out:
			if err := s.SendMsg(p); err != nil {
				return err
			}
		case err := <-received:
			return err
		case <-ended:
			return status.Error(codes.Unavailable, "the server ends")
		}
	}
}
