# Writes OUT: a C++ file with the text of FILE as api::openapi_document.
file(READ ${FILE} document)
set(text "#include \"api/ledger_api.hpp\"\n\nnamespace semel::api {\n\nconst char* const openapi_document =\n")
# A string literal may not be longer than 64 KiB: adjacent pieces are joined by the compiler.
string(LENGTH "${document}" length)
set(at 0)
while(at LESS length)
  string(SUBSTRING "${document}" ${at} 8000 piece)
  string(APPEND text "R\"semel_text(${piece})semel_text\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
string(APPEND text ";\n\n}  // namespace semel::api\n")
file(WRITE ${OUT} "${text}")
