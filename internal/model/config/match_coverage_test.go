package config

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// sampleRequest is a request with all properties that a match of TestMatchCoversIsNeverWrong can
// test.
type sampleRequest struct {
	path, method, gateway string
	port                  uint32
	headers, labels       map[string]string
}

// TestMatchCoversIsNeverWrong compares matchCovers of random pairs of matches with all requests
// that these matches can distinguish.
func TestMatchCoversIsNeverWrong(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	requests := sampleRequests()
	covered := 0
	for range 20_000 {
		a, b := randomMatch(random), randomMatch(random)
		if !matchCovers(a, b) {
			continue
		}
		covered++
		for _, r := range requests {
			if r.matched(b) && !r.matched(a) {
				t.Fatalf("%+v is matched by\n%v, which matchCovers reports as covered by\n%v", r, b, a)
			}
		}
	}
	if covered < 1000 {
		t.Errorf("only %d pairs are covered: the test is not effective", covered)
	}
}

func sampleRequests() (list []sampleRequest) {
	for _, path := range []string{"/", "/a", "/A", "/a/b", "/ab", "/b", "/B/c"} {
		for _, method := range []string{"GET", "POST"} {
			for _, gateway := range []string{"mesh", "edge"} {
				for _, port := range []uint32{80, 81} {
					for _, value := range []string{"", "x", "xy"} {
						for _, label := range []string{"", "v1"} {
							r := sampleRequest{
								path:    path,
								method:  method,
								gateway: gateway,
								port:    port,
								headers: map[string]string{},
								labels:  map[string]string{},
							}
							if value != "" {
								r.headers["h"] = value
							}
							if label != "" {
								r.labels["l"] = label
							}
							list = append(list, r)
						}
					}
				}
			}
		}
	}
	return list
}

func randomMatch(random *rand.Rand) *networking.HTTPMatchRequest {
	m := &networking.HTTPMatchRequest{}
	set := func() bool { return random.IntN(3) == 0 }
	if random.IntN(4) > 0 {
		m.Uri = randomString(random, "/", "/a", "/A", "/a/b", "/B", ".*", "/a.*")
		m.IgnoreUriCase = set()
	}
	if set() {
		m.Method = randomString(random, "GET", "POST", "P")
	}
	if set() {
		m.Headers = map[string]*networking.StringMatch{"h": randomString(random, "x", "xy", ".*")}
	}
	if set() {
		m.WithoutHeaders = map[string]*networking.StringMatch{"h": randomString(random, "x", "xy")}
	}
	if set() {
		m.Port = 80 + uint32(random.IntN(2))
	}
	if set() {
		m.SourceLabels = map[string]string{"l": "v1"}
	}
	if set() {
		m.Gateways = []string{"mesh", "edge"}[random.IntN(2):]
	}
	return m
}

func randomString(random *rand.Rand, values ...string) *networking.StringMatch {
	text := values[random.IntN(len(values))]
	switch random.IntN(4) {
	case 0:
		return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: text}}
	case 1:
		return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: text}}
	case 2:
		return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: text}}
	default:
		return &networking.StringMatch{}
	}
}

func (r sampleRequest) matched(m *networking.HTTPMatchRequest) bool {
	value, there := r.headers["h"]
	_, with := m.GetHeaders()["h"]
	_, without := m.GetWithoutHeaders()["h"]
	return matchesText(m.GetUri(), r.path, m.GetIgnoreUriCase()) && matchesText(m.GetMethod(), r.method, false) &&
		(!with || there && matchesText(m.GetHeaders()["h"], value, false)) &&
		(!without || !there || !matchesText(m.GetWithoutHeaders()["h"], value, false)) &&
		(m.GetPort() == 0 || m.GetPort() == r.port) &&
		(len(m.GetSourceLabels()) == 0 || maps.Equal(m.GetSourceLabels(), r.labels)) &&
		(len(m.GetGateways()) == 0 || slices.Contains(m.GetGateways(), r.gateway))
}

// matchesText matches one value. Case is ignored for exact texts and prefixes, not for regular expressions, as in Envoy's routes.
func matchesText(m *networking.StringMatch, value string, ignoreCase bool) bool {
	fold := func(s string) string {
		if ignoreCase {
			return strings.ToLower(s)
		}
		return s
	}
	switch t := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return fold(value) == fold(t.Exact)
	case *networking.StringMatch_Prefix:
		return strings.HasPrefix(fold(value), fold(t.Prefix))
	case *networking.StringMatch_Regex:
		return regexp.MustCompile("^(?:" + t.Regex + ")$").MatchString(value)
	default:
		return true
	}
}
