package service

import (
	"net/http"
	"strconv"
)

// book is the answer of details, in the sample's spelling.
type book struct {
	ID        int    `json:"id"`
	Author    string `json:"author"`
	Year      int    `json:"year"`
	Type      string `json:"type"`
	Pages     int    `json:"pages"`
	Publisher string `json:"publisher"`
	Language  string `json:"language"`
	ISBN10    string `json:"ISBN-10"`
	ISBN13    string `json:"ISBN-13"`
}

func detailsRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", healthy("Details"))
	mux.HandleFunc("GET /details/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			writeError(w, http.StatusBadRequest, "please provide numeric product id")
			return
		}
		writeJSON(w, http.StatusOK, book{
			ID: id, Author: "William Shakespeare", Year: 1595, Type: "paperback", Pages: 200,
			Publisher: "PublisherA", Language: "English", ISBN10: "1234567890", ISBN13: "123-1234567890",
		})
	})
	return mux
}
