package service

import (
	"html/template"
	"net/http"
	"net/url"
	"time"
)

const (
	// patience is how long productpage waits for each call.
	patience = 3 * time.Second
	// reviewsTries is how often it asks for reviews: the sample does so on purpose, for its lesson on timeouts.
	reviewsTries = 2
)

type productpage struct {
	details, reviews, ratings string
	up                        *upstream
	pages                     *template.Template
}

type product struct {
	ID              int    `json:"id"`
	Title           string `json:"title"`
	DescriptionHTML string `json:"descriptionHtml"`
}

// products is the whole catalogue.
func products() []product {
	return []product{{
		ID: 0, Title: "The Comedy of Errors",
		DescriptionHTML: `<a href="https://en.wikipedia.org/wiki/The_Comedy_of_Errors">Wikipedia Summary</a>: ` +
			`one of <b>William Shakespeare</b>'s early plays, his shortest, and a farce of mistaken identity.`,
	}}
}

func (s *productpage) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("Product page is healthy"))
	})
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /index.html", s.index)
	mux.HandleFunc("GET /productpage", s.page)
	mux.HandleFunc("POST /login", login)
	mux.HandleFunc("GET /logout", logout)
	mux.HandleFunc("GET /api/v1/products", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, products())
	})
	mux.HandleFunc("GET /api/v1/products/{id}", s.proxied(s.getDetails))
	mux.HandleFunc("GET /api/v1/products/{id}/reviews", s.proxied(s.getReviews))
	mux.HandleFunc("GET /api/v1/products/{id}/ratings", s.proxied(s.getRatings))
	return mux
}

// proxied answers with what another service said about the product of the path.
func (s *productpage) proxied(get func(*http.Request, string) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, answer := get(r, url.PathEscape(r.PathValue("id")))
		writeJSON(w, status, answer)
	}
}

func (s *productpage) getDetails(r *http.Request, id string) (int, any) {
	return s.ask(r, "http://"+s.details+"/details/"+id, 1, "details")
}

func (s *productpage) getReviews(r *http.Request, id string) (int, any) {
	return s.ask(r, "http://"+s.reviews+"/reviews/"+id, reviewsTries, "reviews")
}

func (s *productpage) getRatings(r *http.Request, id string) (int, any) {
	return s.ask(r, "http://"+s.ratings+"/ratings/"+id, 1, "ratings")
}

// ask returns the answer with 200, else an apology with the last status, 500 if there was none.
func (s *productpage) ask(r *http.Request, url string, tries int, what string) (int, any) {
	header := passedOn(r.Header)
	if user := userOf(r); user != "" {
		header.Set("end-user", user)
	}
	status := 0
	for range tries {
		var answer map[string]any
		var err error
		if status, err = s.up.get(r.Context(), url, header, patience, &answer); err == nil {
			return http.StatusOK, answer
		}
	}
	if status == 0 || status == http.StatusOK { // 200 that could not be read
		status = http.StatusInternalServerError
	}
	return status, map[string]string{"error": "Sorry, product " + what + " are currently unavailable for this book."}
}

const userCookie = "user"

// userOf returns the name of the user who logged in, or "".
func userOf(r *http.Request) string {
	if c, err := r.Cookie(userCookie); err == nil {
		return c.Value
	}
	return ""
}

func login(w http.ResponseWriter, r *http.Request) {
	// Quoted by SetCookie if need be, but what a cookie cannot hold it drops.
	http.SetCookie(w, &http.Cookie{Name: userCookie, Value: r.PostFormValue("username"), Path: "/", HttpOnly: true})
	http.Redirect(w, r, "/productpage", http.StatusFound)
}

func logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: userCookie, Path: "/", MaxAge: -1})
	http.Redirect(w, r, "/productpage", http.StatusFound)
}
