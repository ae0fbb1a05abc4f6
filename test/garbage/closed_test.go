package garbage

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// closed holds ports to what they must not do, whoever asks: change from HTTP/1.1 to HTTP/2, by which requests have been smuggled
// (CVE-2022-41721), and speak versions of TLS that are broken.
func closed(t *testing.T, doors []door) {
	t.Helper()
	for _, d := range doors {
		if d.network != "tcp" || d.name == "DNS" {
			continue
		}
		if answer := upgraded(t, d); strings.Contains(answer, " 101 ") {
			t.Errorf("%s changes to HTTP/2: %q", d.name, answer)
		}
		if !d.tls {
			continue
		}
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
			c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", d.address, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}) //nolint:gosec // it is an attacker
			if err == nil {
				_ = c.Close()
				t.Errorf("%s speaks %s", d.name, tls.VersionName(version))
			}
		}
	}
}

// upgraded gives the first line of the answer to a request for a change, "" if there is none.
func upgraded(t *testing.T, d door) string {
	t.Helper()
	c, err := d.inside(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "GET "+append(d.paths, "/")[0]+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
	if err != nil {
		return ""
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}
