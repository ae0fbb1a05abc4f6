package story

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// gatewayAPIScenes follow samples/gateway-api. They begin with Bookinfo and its rules, and replace those rules and
// the gateway of the chart by objects of the Gateway API.
func gatewayAPIScenes() []scene {
	return []scene{
		{title: "A Gateway deploys its own proxy", play: playDeployGateway},
		{title: "A mesh route sends all reviews to v1, beside a VirtualService", load: true, play: playFirstMeshRoute},
		{title: "A mesh route sends the user jason to v2", load: true, play: playMeshRouteHeader},
		{title: "A mesh route sends one call in ten to v3", load: true, play: playMeshRouteWeights},
		{title: "The Gateway routes by header and weight", load: true, play: playGatewayRoutes},
		{title: "A route that does not attach names the reason", load: true, play: playUnattachedRoute},
		{title: "The Gateway's proxy is scaled to two, and back", load: true, play: playScaleGateway},
		{title: "The Gateway's proxy is rolled", load: true, play: playRollGateway},
		{title: "The mesh route is deleted", load: true, play: playLastMeshRoute},
		{title: "The Gateway is deleted, and its proxy with it", play: playDeleteGateway},
	}
}

// deployment is the Deployment of the sample's Gateway, and gatewaySelector selects it and its Pods.
const (
	deployment      = "deployment/bookinfo-istio"
	gatewaySelector = "gateway.networking.k8s.io/gateway-name=bookinfo"
)

func playAllV3(ctx context.Context, s *Stage) error {
	for _, file := range []string{"destination-rule-all.yaml", "virtual-service-reviews-v3.yaml"} {
		if err := s.applyFile(ctx, "networking/"+file, true); err != nil {
			return err
		}
	}
	return s.awaitReconciled(ctx)
}

func playDeployGateway(ctx context.Context, s *Stage) error {
	if err := s.applyGatewayAPI(ctx, "bookinfo.yaml", "bookinfo-versions.yaml"); err != nil {
		return err
	}
	if _, err := s.runKubectl(ctx, "wait", "--for=condition=Programmed", "--timeout=90s", "gateway/bookinfo"); err != nil {
		return err
	}
	address, err := s.runKubectl(ctx, "get", "gateway", "bookinfo", "-o", "jsonpath={.status.addresses[0].value}")
	if err != nil {
		return err
	}
	s.gateway = address
	table, err := s.runKubectl(ctx, "get", "gateway,httproute")
	if err != nil {
		return err
	}
	s.audience.Show(table)
	row := regexp.MustCompile(`gateway\.networking\.k8s\.io/bookinfo +istio +` + regexp.QuoteMeta(address) + ` +True `)
	s.reportVerdict(row.MatchString(table), "kubectl get gateway", "class, address, programmed", firstLines(table, 2))
	// The address is announced when the proxy serves it: the first request is answered.
	code, body, err := s.getPath(ctx, "/productpage")
	if err != nil {
		return err
	}
	s.reportVerdict(code == http.StatusOK, "the product page at the Gateway's address", "200",
		fmt.Sprintf("%d, %d bytes", code, len(body)))
	return nil
}

func playFirstMeshRoute(ctx context.Context, s *Stage) error {
	if err := s.applyGatewayAPI(ctx, "reviews-v1.yaml"); err != nil {
		return err
	}
	if err := s.awaitVersions(ctx, "", "reviews-v1"); err != nil {
		return err
	}
	// The VirtualService is not used any more, which its status reports; then it is deleted.
	namesRoute := regexp.MustCompile(`HTTPRoute`)
	reason, err := s.awaitOutput(ctx, namesRoute, "get", "virtualservice/reviews", "-o", "jsonpath={.status}")
	s.reportVerdict(err == nil, "the status of the VirtualService", "it names the HTTPRoute", reason)
	if _, err := s.runKubectl(ctx, "delete", "virtualservice/reviews"); err != nil {
		return err
	}
	_, err = s.runKubectl(ctx, "delete", "destinationrule", "--all")
	return err
}

func playMeshRouteHeader(ctx context.Context, s *Stage) error {
	if err := s.applyGatewayAPI(ctx, "reviews-jason-v2.yaml"); err != nil {
		return err
	}
	if err := s.awaitVersions(ctx, "jason", "reviews-v2"); err != nil {
		return err
	}
	return s.awaitVersions(ctx, "", "reviews-v1")
}

func playMeshRouteWeights(ctx context.Context, s *Stage) error {
	if err := s.applyGatewayAPI(ctx, "reviews-90-10.yaml"); err != nil {
		return err
	}
	return s.awaitVersions(ctx, "", "reviews-v1", "reviews-v3")
}

func playGatewayRoutes(ctx context.Context, s *Stage) error {
	if err := s.applyGatewayAPI(ctx, "reviews-at-gateway.yaml"); err != nil {
		return err
	}
	for _, c := range []struct {
		header http.Header
		want   []string
	}{
		{http.Header{"X-Preview": {"true"}}, []string{"reviews-v2"}},
		{nil, []string{"reviews-v1", "reviews-v3"}},
	} {
		if err := s.awaitAnswers(ctx, "/reviews/0", c.header, c.want); err != nil {
			return err
		}
	}
	return nil
}

// unattached is a route whose parentRef names a listener that the Gateway does not have.
const unattached = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: unattached}
spec:
  parentRefs: [{name: bookinfo, sectionName: https}]
  rules: [{backendRefs: [{name: productpage, port: 9080}]}]
`

func playUnattachedRoute(ctx context.Context, s *Stage) error {
	s.audience.Show(unattached)
	if err := s.cluster.Apply(ctx, unattached); err != nil {
		return err
	}
	reason, err := s.awaitOutput(ctx, regexp.MustCompile(`NoMatchingParent.*https`), "get", "httproute/unattached", "-o",
		`jsonpath={.status.parents[0].conditions[?(@.type=="Accepted")]['reason','message']}`)
	s.reportVerdict(err == nil, "its condition Accepted", "NoMatchingParent, and the listener", reason)
	_, err = s.runKubectl(ctx, "delete", "httproute/unattached")
	return err
}

func playScaleGateway(ctx context.Context, s *Stage) error {
	for _, replicas := range []string{"2", "1"} {
		if _, err := s.runKubectl(ctx, "scale", deployment, "--replicas="+replicas); err != nil {
			return err
		}
		if err := s.awaitDeployments(ctx, gatewaySelector); err != nil {
			return err
		}
		if err := sleepFor(ctx, afterwards); err != nil {
			return err
		}
	}
	return nil
}

func playRollGateway(ctx context.Context, s *Stage) error {
	if _, err := s.runKubectl(ctx, "rollout", "restart", deployment); err != nil {
		return err
	}
	return s.awaitDeployments(ctx, gatewaySelector)
}

func playLastMeshRoute(ctx context.Context, s *Stage) error {
	if _, err := s.runKubectl(ctx, "delete", "httproute/reviews"); err != nil {
		return err
	}
	return s.awaitVersions(ctx, "", "reviews-v1", "reviews-v2", "reviews-v3")
}

func playDeleteGateway(ctx context.Context, s *Stage) error {
	if _, err := s.runKubectl(ctx, "delete", "gateway/bookinfo"); err != nil {
		return err
	}
	_, err := s.runKubectl(ctx, "wait", "--for=delete", "--timeout=60s", deployment, "service/bookinfo-istio")
	s.reportVerdict(err == nil, "its Deployment and Service", "deleted", "deleted")
	return err
}

// applyGatewayAPI applies files of samples/gateway-api.
func (s *Stage) applyGatewayAPI(ctx context.Context, files ...string) error {
	for _, file := range files {
		text, err := s.readSample("gateway-api", file)
		if err != nil {
			return err
		}
		s.audience.Say("kubectl apply -f samples/gateway-api/%s", file)
		s.audience.Show(text)
		if err := s.cluster.Apply(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// awaitVersions waits until calls of productpage for a user, who may be empty, are answered by these versions of
// reviews, all of them and no other.
func (s *Stage) awaitVersions(ctx context.Context, user string, want ...string) error {
	header := http.Header{}
	if user != "" {
		header.Set("end-user", user)
	}
	return s.awaitAnswers(ctx, reviewsPath, header, want)
}

// awaitAnswers waits until 40 requests are answered by these versions of reviews, all of them and no other.
func (s *Stage) awaitAnswers(ctx context.Context, path string, header http.Header, want []string) error {
	const requests = 40
	var seen []string
	err := awaitCondition(ctx, fmt.Sprint(want), func(ctx context.Context) error {
		seen = nil
		for range requests {
			version, err := s.versionAt(ctx, path, header)
			if err != nil {
				return err
			}
			if seen = append(seen, version); !slices.Contains(want, version) {
				return fmt.Errorf("%s answers", version)
			}
		}
		slices.Sort(seen)
		if seen = slices.Compact(seen); !slices.Equal(seen, want) {
			return fmt.Errorf("%v answer", seen)
		}
		return nil
	})
	what := fmt.Sprintf("%d requests for %s %v", requests, path, header)
	s.reportVerdict(err == nil, what, strings.Join(want, ", "), fmt.Sprint(seen))
	return err
}

// versionAt returns the version of reviews that answers a request.
func (s *Stage) versionAt(ctx context.Context, path string, header http.Header) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.gateway+path, http.NoBody)
	if err != nil {
		return "", err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	return versionOf(resp.StatusCode, body)
}

// awaitOutput waits until the output of kubectl matches, and returns the last one.
func (s *Stage) awaitOutput(ctx context.Context, want *regexp.Regexp, args ...string) (string, error) {
	var out string
	err := awaitCondition(ctx, want.String(), func(ctx context.Context) (err error) {
		if out, err = s.runKubectl(ctx, args...); err == nil && !want.MatchString(out) {
			err = fmt.Errorf("the output is %q", out)
		}
		return err
	})
	return out, err
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
