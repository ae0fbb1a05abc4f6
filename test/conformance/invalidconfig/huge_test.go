package invalidconfig

import (
	"fmt"
	"strings"
)

type hugeObject struct {
	text    string
	refused bool
}

func huge() map[string]hugeObject {
	many := func(n int, item string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(item, "#", fmt.Sprint(i)) + ",")
		}
		return "[" + b.String() + "]"
	}
	object := func(kind, spec string) string {
		return "{apiVersion: networking.istio.io/v1, kind: " + kind + ", metadata: {name: bad}, spec: " + spec + "}"
	}
	route := "route: [{destination: {host: web}}]"
	return map[string]hugeObject{
		"a name of 300 characters":        {strings.Replace(object("VirtualService", "{hosts: [web], http: [{"+route+"}]}"), "name: bad", "name: "+strings.Repeat("a", 300), 1), true},
		"5,000 routes":                    {object("VirtualService", "{hosts: [web], http: "+many(5_000, "{match: [{uri: {prefix: /p#}}], "+route+"}")+"}"), false},
		"2,000 hosts":                     {object("VirtualService", "{hosts: "+many(2_000, "h#.example.org")+", http: [{"+route+"}]}"), false},
		"2,000 matches of a route":        {object("VirtualService", "{hosts: [web], http: [{match: "+many(2_000, "{headers: {x-a: {exact: v#}}}")+", "+route+"}]}"), false},
		"a regular expression that grows": {object("VirtualService", "{hosts: [web], http: [{match: [{uri: {regex: "+`"((a{100}){100}){100}"`+"}}], "+route+"}]}"), true},
		"a header value of 64 KB":         {object("VirtualService", "{hosts: [web], http: [{headers: {request: {set: {x-a: "+strings.Repeat("v", 64<<10)+"}}}, "+route+"}]}"), true},
		"1,000 subsets":                   {object("DestinationRule", "{host: web, subsets: "+many(1_000, "{name: s#, labels: {v: v#}}")+"}"), false},
		"1,000 hosts and 50 ports":        {object("ServiceEntry", "{resolution: NONE, hosts: "+many(1_000, "h#.example.org")+", ports: "+many(50, "{number: 1#, name: p#, protocol: HTTP}")+"}"), true},
		"a header of 16 KB":               {object("VirtualService", "{hosts: [web], http: [{headers: {request: {set: {x-a: "+strings.Repeat("v", 16<<10)+"}}}, "+route+"}]}"), false},
		"a query parameter of 2 KB":       {object("VirtualService", "{hosts: [web], http: [{match: [{queryParams: {"+strings.Repeat("q", 2<<10)+": {exact: a}}}], "+route+"}]}"), true},
		"5,000 endpoints": {object("ServiceEntry", "{resolution: STATIC, hosts: [h.example.org], ports: [{number: 80, name: http, protocol: HTTP}], endpoints: "+
			many(5_000, "{address: 10.20.0.1, labels: {i: i#}}")+"}"), true},
		"4,096 endpoints": {object("ServiceEntry", "{resolution: STATIC, hosts: [h.example.org], ports: [{number: 80, name: http, protocol: HTTP}], endpoints: "+
			many(4_096, "{address: 10.20.0.1, labels: {i: i#}}")+"}"), false},
		"10,000 egress hosts": {object("Sidecar", "{egress: [{hosts: ["+`"*/*",`+strings.TrimPrefix(many(10_000, "default/h#.example.org"), "[")+"}]}"), false},
	}
}
