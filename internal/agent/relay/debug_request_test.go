package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestAsk tests that debug requests are sent on Envoy's stream and each caller gets its own
// response.
func TestAsk(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
		p := startPlane(t)
		w := startRelay(t, Options{}, p.address)
		if _, err := w.QueryDebug(t.Context(), debugType, "syncz"); !errors.Is(err, errNotConnected) {
			t.Errorf("without a stream: %v", err)
		}
		e := w.dial(t, f)
		e.send(t, ask(f, api.ListenerType, ""))
		u := p.accept(t)
		u.recv(t)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		serving.Eventually(t, patience, "a question that is given up", func() error {
			if _, err := w.QueryDebug(late, debugType, "never"); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
		got := make(chan string, 1)
		go func() {
			list, err := w.QueryDebug(t.Context(), debugType, "syncz")
			text := ""
			for _, r := range list {
				text += string(r.GetResource().GetValue())
			}
			got <- fmt.Sprintf("%s %v", text, err)
		}()
		for _, name := range []string{"never", "syncz"} {
			if r := u.recv(t); !bytes.Contains(r, []byte(name)) {
				t.Errorf("question %q, want %s", r, name)
			}
		}
		for _, text := range []string{"an answer too late", "the answer"} {
			u.send(t, say(f, debugType, "1", &discoveryv3.Resource{Resource: &anypb.Any{Value: []byte(text)}}))
		}
		if text := take(t, got, "answer"); text != "the answer <nil>" {
			t.Errorf("answer %s", text)
		}
	})
}

// TestQuestions tests debug requests over HTTP and, as Istio's command line sends them, over ADS.
func TestQuestions(t *testing.T) {
	p := startPlane(t)
	w := startRelay(t, Options{}, p.address)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.ServeDebug(ctx, l) }()
	page := func(path string) (int, string) {
		answer, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, text := page("/debug/syncz"); code != http.StatusServiceUnavailable {
		t.Errorf("without a stream: %d %s", code, text)
	}
	e := w.dial(t, delta{})
	e.send(t, ask(delta{}, api.ListenerType, ""))
	u := p.accept(t)
	u.recv(t)
	go func() {
		for _, body := range []string{"{}", "", "{1}"} {
			var f frame
			if u.stream.RecvMsg(&f) != nil {
				return
			}
			m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: debugType}
			if body != "" {
				name := "edsz?proxyID=a.b"
				if !bytes.Contains(f, []byte(name)) {
					body = "asked " + string(f)
				}
				m.Resources = []*discoveryv3.Resource{{Resource: &anypb.Any{Value: []byte(body)}}}
			}
			if f, err := encodeFrame(m); err != nil || u.stream.SendMsg(&f) != nil {
				return
			}
		}
	}()
	serving.Eventually(t, patience, "a page", func() error {
		if code, text := page("/debug/edsz?proxyID=a.b"); code != http.StatusOK || text != "{}" {
			return fmt.Errorf("page: %d %s", code, text)
		}
		return nil
	})
	if code, text := page("/debug/nothing"); code != http.StatusNotFound {
		t.Errorf("no page: %d %s", code, text)
	}
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: debugType, ResourceNames: []string{"edsz?proxyID=a.b"}}); err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || string(answer.GetResources()[0].GetValue()) != "{1}" {
		t.Errorf("over ADS: %v, %v", answer, err)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: api.ClusterType}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("configuration over ADS: %v", err)
	}
	_ = connection.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
