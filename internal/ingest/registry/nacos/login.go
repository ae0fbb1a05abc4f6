package nacos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// accessToken is a token of a login, which is valid for a time. The zero value is that of servers
// without authentication.
type accessToken struct {
	secret string
	renew  time.Time // zero: never
}

// maxTokenAnswer limits the answer to a login.
const maxTokenAnswer = 1 << 20

// loginPaths are the paths of the login, of Nacos 2 and 3.
func loginPaths() []string { return []string{"/nacos/v1/auth/login", "/nacos/v3/auth/user/login"} }

// login returns an access token of a server for the user in AuthFile, to be renewed after nine
// tenths of its validity. Without AuthFile it returns the zero value. It tries the paths of
// loginPaths, over HTTPS if s.TLS is set, and fails if the server has none of them. It also fails
// if AuthFile cannot be read or has no colon, or the server refuses the login.
func (s *Settings) login(ctx context.Context, server string, now time.Time) (accessToken, error) {
	if s.AuthFile == "" {
		return accessToken{}, nil
	}
	text, err := os.ReadFile(s.AuthFile)
	if err != nil {
		return accessToken{}, fmt.Errorf("--nacosAuthFile: %w", err)
	}
	user, password, found := strings.Cut(string(bytes.TrimSpace(text)), ":")
	if !found {
		return accessToken{}, fmt.Errorf("--nacosAuthFile %s: want user:password", s.AuthFile)
	}
	security, err := s.tlsConfig()
	if err != nil {
		return accessToken{}, err
	}
	scheme := "http://"
	if s.TLS {
		scheme = "https://"
	}
	client := &http.Client{Transport: clienttls.NewTransport(security), Timeout: requestTimeout}
	defer client.CloseIdleConnections()
	form := url.Values{"username": {user}, "password": {password}}
	for _, path := range loginPaths() {
		var t accessToken
		if t, err = loginAt(ctx, client, scheme+server+path, form, now); !errors.Is(err, errNoLogin) {
			return t, err
		}
	}
	return accessToken{}, fmt.Errorf("%s: %w", server, err)
}

// errNoLogin is returned for a path that a server does not have.
var errNoLogin = errors.New("the server has no login")

// loginAt sends a login to a URL and returns the token. It returns errNoLogin for status 404 and
// 410, and another error for any other status than 200, or an answer without a token. Errors
// contain the URL, but not the form.
func loginAt(
	ctx context.Context,
	client *http.Client,
	address string,
	form url.Values,
	now time.Time,
) (accessToken, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return accessToken{}, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(r)
	if err != nil {
		return accessToken{}, clienttls.WithoutURL(address, err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return accessToken{}, errNoLogin
	default:
		return accessToken{}, fmt.Errorf("%s: the login is answered with status %d", address, answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxTokenAnswer))
	if err != nil {
		return accessToken{}, fmt.Errorf("%s: %w", address, err)
	}
	return parseLogin(body, now)
}

// parseLogin parses the answer to a login. It returns an error if that has no token. The token is
// renewed after nine tenths of its lifetime, or never without one.
func parseLogin(body []byte, now time.Time) (accessToken, error) {
	var x struct {
		AccessToken string `json:"accessToken"`
		TTL         int64  `json:"tokenTtl"` // in seconds
	}
	if err := json.Unmarshal(body, &x); err != nil || x.AccessToken == "" {
		return accessToken{}, errors.New("the answer to the login has no accessToken")
	}
	t := accessToken{secret: x.AccessToken}
	if x.TTL > 0 {
		t.renew = now.Add(time.Duration(min(x.TTL, maxTTL)) * time.Second * 9 / 10)
	}
	return t, nil
}

// maxTTL limits the validity of a token, in seconds.
const maxTTL = 365 * 24 * 3600
