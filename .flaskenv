# So that `flask jobs …` finds the application.
FLASK_APP=api.index
