// CoreDNS with the few plugins that a test cluster needs: the full build links the SDKs of several
// clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/whoami"
)

func main() {
	// The order in which plugins see a query. CoreDNS knows no directive that is not in this list.
	dnsserver.Directives = []string{
		"reload",
		"ready",
		"health",
		"errors",
		"log",
		"cache",
		"template",
		"hosts",
		"kubernetes",
		"loop",
		"forward",
		"whoami",
	}
	coremain.Run()
}
