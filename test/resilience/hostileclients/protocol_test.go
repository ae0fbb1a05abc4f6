package hostileclients

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// checkProtocols checks that ports refuse for any client to change from HTTP/1.1 to HTTP/2, by
// which requests have been smuggled (CVE-2022-41721), and to use broken versions of TLS.
func checkProtocols(t *testing.T, doors []door) {
	t.Helper()
	for _, d := range doors {
		if d.Network != "tcp" || dnsDoor(d) {
			continue
		}
		if answer := upgrade(t, d); strings.Contains(answer, " 101 ") {
			t.Errorf("%s changes to HTTP/2: %q", d.Name, answer)
		}
		if !d.TLS {
			continue
		}
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
			config := &tls.Config{InsecureSkipVerify: true, MinVersion: version,
				MaxVersion: version} //nolint:gosec // an attacker
			c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", d.Address, config)
			if err == nil {
				_ = c.Close()
				t.Errorf("%s speaks %s", d.Name, tls.VersionName(version))
			}
		}
	}
}

// upgrade returns the first line of the answer to a request for HTTP/2, or "" without an answer.
func upgrade(t *testing.T, d door) string {
	t.Helper()
	c, err := (&attacker{tally: new(tally)}).inside(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "GET "+append(d.Paths, "/")[0]+
		" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
	if err != nil {
		return ""
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}
