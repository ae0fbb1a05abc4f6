package hostileclients

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// sideEffects are the debug pages that change something.
func sideEffects() []string {
	return []string{"/debug/adsz?push=true", "/debug/cachez?clear=true",
		"/debug/force_disconnect?proxyID=honest." + honestNamespace}
}

// crossOrigin sends the requests that a foreign site can make from the browser of an operator: GET
// and simple POST requests, with the headers of a browser. The count of the attack is the number of
// executed requests.
func crossOrigin(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx, d) },
		DisableKeepAlives: true,
	}}
	pages := sideEffects()
	request, err := http.NewRequestWithContext(ctx, []string{http.MethodGet, http.MethodPost}[r.IntN(2)],
		"http://"+d.Address+pages[r.IntN(len(pages))], http.NoBody)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Origin": "https://evil.example", "Referer": "https://evil.example/", "Sec-Fetch-Site": "cross-site",
		"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image", "User-Agent": "Mozilla/5.0",
	} {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", request.Method, response.Status)
	}
	a.mu.Lock()
	a.result.Count++
	a.mu.Unlock()
	return nil
}

// manyVersions connects as proxies with unique versions. Each could become a label of a metric.
func manyVersions(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	st, end, err := a.openStream(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	version := fmt.Sprintf("9.%d.%d%s", r.IntN(1e6), r.IntN(1e6), madeUpVersion)
	node := a.node(fmt.Sprintf("version-%d", r.IntN(1e6)), map[string]any{"ISTIO_VERSION": version})
	if err := st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: api.ClusterType}); err != nil {
		return err
	}
	if _, err = st.Recv(); err == nil {
		a.count(1)
		pause(ctx, time.Second) // the stream stays open, so that the metric counts it
	}
	return err
}

// register connects as a workload of the honest WorkloadGroup, which wants a WorkloadEntry.
func register(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	st, end, err := a.openStream(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	node := a.node(fmt.Sprintf("register-%d", r.IntN(1e6)), map[string]any{
		"AUTO_REGISTER_GROUP": honestAccount, "SERVICE_ACCOUNT": honestAccount,
	})
	if err := st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: api.ClusterType}); err != nil {
		return err
	}
	_, err = st.Recv()
	pause(ctx, 200*time.Millisecond) // the entry is written meanwhile
	return err
}

// madeUpVersion marks the versions of manyVersions.
const madeUpVersion = "-made-up"

// debugOverXDS repeatedly requests debug pages on a stream.
func debugOverXDS(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	st, end, err := a.openStream(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	node := a.node("curious", nil)
	for _, page := range []string{"config_dump?proxyID=honest." + honestNamespace, "syncz", "registryz",
		"endpointz", "configz"} {
		if err := st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: "istio.io/debug",
			ResourceNames: []string{page}}); err != nil {
			return err
		}
		if _, err := st.Recv(); err != nil {
			return err
		}
		a.count(1)
	}
	return nil
}

// bigReviews sends reviews of 3 MB that are well formed, to be read whole before they are answered.
func bigReviews(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	c, err := a.inside(ctx, d, "http/1.1")
	if err != nil {
		return err
	}
	defer c.Close()
	body := bigReview()
	if _, err := fmt.Fprintf(c,
		"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		len(body)); err != nil {
		return err
	}
	if _, err := c.Write(body); err != nil {
		return err
	}
	drain(c)
	return nil
}
