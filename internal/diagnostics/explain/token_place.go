package explain

import (
	"encoding/base64"
	"slices"
	"strings"

	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"

	"google.golang.org/protobuf/types/known/structpb"
)

// Default token locations of a provider (RFC 6750, sections 2.1 and 2.3).
const (
	tokenHeader = "authorization"
	tokenScheme = "Bearer "
	tokenParam  = "access_token"
)

// tokenLocations returns the headers, query parameters and cookies in which a provider looks for
// tokens. If the provider has none, they are Envoy's defaults.
func tokenLocations(p *jwtauthnv3.JwtProvider) (headers []*jwtauthnv3.JwtHeader, params, cookies []string) {
	headers, params, cookies = p.GetFromHeaders(), p.GetFromParams(), p.GetFromCookies()
	if len(headers)+len(params)+len(cookies) == 0 {
		return []*jwtauthnv3.JwtHeader{{Name: tokenHeader, ValuePrefix: tokenScheme}}, []string{tokenParam}, nil
	}
	return headers, params, cookies
}

// requestTokens returns the tokens of the request in a provider's headers, query parameters and
// cookies, in this order. If the provider has none of these, they are Envoy's defaults
// (tokenLocations). A header without the required prefix has no token. The first value of a
// query parameter counts, and all cookies of a name.
func (x *exchange) requestTokens(p *jwtauthnv3.JwtProvider) []string {
	headers, params, cookies := tokenLocations(p)
	var list []string
	for _, h := range headers {
		if value, there := x.request.headerValue(h.GetName()); there {
			if text, ok := trimTokenPrefix(value, h.GetValuePrefix()); ok {
				list = append(list, text)
			}
		}
	}
	_, query := x.request.splitPath()
	for _, name := range params {
		if text, there := queryValue(query, name); there {
			list = append(list, text)
		}
	}
	for _, line := range x.request.Values("cookie") {
		for part := range strings.SplitSeq(line, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if slices.Contains(cookies, name) {
				list = append(list, value)
			}
		}
	}
	return list
}

// trimTokenPrefix returns the token after the first occurrence of prefix in a header's value,
// without leading spaces. The token ends before the first character that a JWT cannot contain. If
// prefix is "", the whole value is the token. ok is false if the value does not contain the prefix,
// or if the token is empty.
func trimTokenPrefix(value, prefix string) (token string, ok bool) {
	i := strings.Index(value, prefix)
	if i < 0 {
		return "", false
	}
	text := value[i+len(prefix):]
	if prefix == "" {
		return text, text != ""
	}
	text = strings.TrimLeft(text, " ")
	end := strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune(".-_=", r))
	})
	if end >= 0 {
		text = text[:end]
	}
	return text, text != ""
}

// removeTokens removes a provider's headers and query parameters from the request, to hide tokens
// from the application. Cookies stay.
func (x *exchange) removeTokens(p *jwtauthnv3.JwtProvider) {
	headers, params, _ := tokenLocations(p)
	for _, h := range headers {
		x.request.removeHeader(h.GetName())
	}
	path, query := x.request.splitPath()
	if query == "" {
		return
	}
	kept := slices.DeleteFunc(strings.Split(query, "&"), func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		return slices.Contains(params, name)
	})
	x.request.Path = path
	if len(kept) > 0 {
		x.request.Path += "?" + strings.Join(kept, "&")
	}
}

// claimAt returns a claim formatted for a header. path is its name, or else the path of a nested
// claim, "a.b". Strings, numbers and booleans are plain text; other values are base64. The second
// result is false if there is no such claim.
func claimAt(claims *structpb.Struct, path string) (string, bool) {
	value, ok := claims.GetFields()[path]
	if !ok {
		first, rest, nested := strings.Cut(path, ".")
		if !nested {
			return "", false
		}
		return claimAt(claims.GetFields()[first].GetStructValue(), rest)
	}
	switch value.GetKind().(type) {
	case *structpb.Value_StringValue, *structpb.Value_NumberValue, *structpb.Value_BoolValue:
		return valueText(value), true
	default:
		return base64.URLEncoding.EncodeToString([]byte(valueText(value))), true
	}
}
